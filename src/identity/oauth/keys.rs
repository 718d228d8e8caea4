//! An issuer's keys (RFC 7517), and signatures by them.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ring::signature::{self, RsaParameters, RsaPublicKeyComponents, UnparsedPublicKey};
use serde::Deserialize;
use sha2::{Digest, Sha256};

use crate::policy::Algorithm;

/// The most keys of one issuer; the rest are left out.
pub(super) const MAX_KEYS: usize = 64;

/// The keys that an issuer published at one moment.
pub(super) struct Keys {
    keys: Vec<Key>,
    /// Tells one publication from another.
    pub digest: [u8; 32],
}

/// A public key that signs.
pub(super) struct Key {
    id: Option<String>,
    /// The one algorithm that it may be used with, where the issuer says so.
    algorithm: Option<Algorithm>,
    material: Material,
}

enum Material {
    Rsa(RsaPublicKeyComponents<Vec<u8>>),
    /// Uncompressed points.
    P256(Vec<u8>),
    P384(Vec<u8>),
    Ed25519(Vec<u8>),
}

#[derive(Deserialize)]
struct Published {
    keys: Vec<serde_json::Value>,
}

/// Only the members that matter; any other is ignored (RFC 7517, section 4).
#[derive(Deserialize)]
struct Jwk {
    kty: String,
    #[serde(default)]
    kid: Option<String>,
    #[serde(default)]
    alg: Option<String>,
    #[serde(default, rename = "use")]
    usage: Option<String>,
    #[serde(default)]
    key_ops: Option<Vec<String>>,
    #[serde(default)]
    crv: Option<String>,
    #[serde(default)]
    n: Option<String>,
    #[serde(default)]
    e: Option<String>,
    #[serde(default)]
    x: Option<String>,
    #[serde(default)]
    y: Option<String>,
}

impl Keys {
    /// Reads a key set. Keys that do not sign, or in a way not known here, are left out
    /// (RFC 7517, section 5); `None` where the text is no key set.
    pub(super) fn parse(text: &[u8]) -> Option<Self> {
        let published: Published = serde_json::from_slice(text).ok()?;
        let read = |value| serde_json::from_value(value).ok().and_then(Key::read);
        let keys = published.keys.into_iter().filter_map(read).take(MAX_KEYS).collect();
        Some(Self { keys, digest: Sha256::digest(text).into() })
    }

    /// A set of an issuer that signs nothing.
    pub(super) fn none() -> Self {
        Self { keys: Vec::new(), digest: [0; 32] }
    }

    /// The key of this id that suits the algorithm. A token that names no key must leave no choice.
    pub(super) fn find(&self, id: Option<&str>, algorithm: Algorithm) -> Option<&Key> {
        let mut suitable = self
            .keys
            .iter()
            .filter(|key| id.is_none() || key.id.as_deref() == id)
            .filter(|key| key.suits(algorithm));
        let key = suitable.next()?;
        (id.is_some() || suitable.next().is_none()).then_some(key)
    }
}

impl Key {
    fn read(jwk: Jwk) -> Option<Self> {
        let signs = jwk.usage.as_deref().is_none_or(|usage| usage == "sig")
            && jwk.key_ops.as_ref().is_none_or(|ops| ops.iter().any(|one| one == "verify"));
        let algorithm = match jwk.alg.as_deref() {
            None => None,
            // A key for another algorithm is no key for any of ours.
            Some(name) => Some(Algorithm::of(name)?),
        };
        let part = |text: &Option<String>| URL_SAFE_NO_PAD.decode(text.as_deref()?).ok();
        let point = |bytes: usize| {
            let (x, y) = (part(&jwk.x)?, part(&jwk.y)?);
            (x.len() == bytes && y.len() == bytes).then(|| [vec![4], x, y].concat())
        };
        let material = match (jwk.kty.as_str(), jwk.crv.as_deref()) {
            ("RSA", _) => {
                Material::Rsa(RsaPublicKeyComponents { n: part(&jwk.n)?, e: part(&jwk.e)? })
            }
            ("EC", Some("P-256")) => Material::P256(point(32)?),
            ("EC", Some("P-384")) => Material::P384(point(48)?),
            ("OKP", Some("Ed25519")) => Material::Ed25519(part(&jwk.x)?),
            _ => return None,
        };
        signs.then_some(Self { id: jwk.kid, algorithm, material })
    }

    fn suits(&self, algorithm: Algorithm) -> bool {
        self.algorithm.is_none_or(|only| only == algorithm)
            && match self.material {
                Material::Rsa(_) => rsa(algorithm).is_some(),
                Material::P256(_) => algorithm == Algorithm::Es256,
                Material::P384(_) => algorithm == Algorithm::Es384,
                Material::Ed25519(_) => algorithm == Algorithm::EdDsa,
            }
    }

    /// Whether this is the key's signature of the message. RSA keys below 2048 bits sign nothing.
    pub(super) fn verifies(&self, algorithm: Algorithm, message: &[u8], sent: &[u8]) -> bool {
        let by = |algorithm: &'static dyn signature::VerificationAlgorithm, key: &[u8]| {
            UnparsedPublicKey::new(algorithm, key).verify(message, sent).is_ok()
        };
        match &self.material {
            Material::Rsa(key) => rsa(algorithm)
                .is_some_and(|parameters| key.verify(parameters, message, sent).is_ok()),
            Material::P256(key) => by(&signature::ECDSA_P256_SHA256_FIXED, key),
            Material::P384(key) => by(&signature::ECDSA_P384_SHA384_FIXED, key),
            Material::Ed25519(key) => by(&signature::ED25519, key),
        }
    }
}

fn rsa(algorithm: Algorithm) -> Option<&'static RsaParameters> {
    Some(match algorithm {
        Algorithm::Rs256 => &signature::RSA_PKCS1_2048_8192_SHA256,
        Algorithm::Rs384 => &signature::RSA_PKCS1_2048_8192_SHA384,
        Algorithm::Rs512 => &signature::RSA_PKCS1_2048_8192_SHA512,
        Algorithm::Ps256 => &signature::RSA_PSS_2048_8192_SHA256,
        Algorithm::Ps384 => &signature::RSA_PSS_2048_8192_SHA384,
        Algorithm::Ps512 => &signature::RSA_PSS_2048_8192_SHA512,
        Algorithm::Es256 | Algorithm::Es384 | Algorithm::EdDsa => return None,
    })
}

#[cfg(test)]
mod tests;
