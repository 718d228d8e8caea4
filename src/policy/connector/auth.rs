//! How the gateway shows itself to a vendor.

use hyper::header::{AUTHORIZATION, HeaderName, HeaderValue};

use super::super::build::{Mistake, at, set};
use super::super::headers;
use super::super::native::Credential;
use super::super::secret::{LoadedSecret, SecretSources};
use super::fields;

/// The most characters of a scheme.
const MAX_SCHEME: usize = 32;
/// The scheme of `Authorization` where a document names none.
const BEARER: &str = "Bearer";

/// A header, and the connector's own secret for it, if it has one: in scope `workspace` each
/// connection brings its own.
#[derive(Debug)]
pub(in crate::policy) struct AuthHeader {
    pub header: HeaderName,
    scheme: Option<String>,
    pub secret: Option<LoadedSecret>,
}

/// Reads `auth` of a connector.
pub(super) fn build(
    auth: fields::Auth,
    sources: &SecretSources<'_>,
) -> Result<AuthHeader, Mistake> {
    let name = set(auth.header);
    let header: HeaderName = name
        .as_deref()
        .unwrap_or("authorization")
        .parse()
        .map_err(|_| at("auth.header", "is not a valid HTTP header name"))?;
    if headers::is_taken_from_credentials(header.as_str()) {
        return Err(at("auth.header", "is taken: choose a header that has no other meaning"));
    }
    let default = (header == AUTHORIZATION).then(|| BEARER.to_owned());
    let scheme = set(auth.scheme).or(default);
    if scheme.as_deref().is_some_and(|scheme| !is_scheme(scheme)) {
        let problem = format!("must be 1 to {MAX_SCHEME} letters, digits or `-`, such as `Bearer`");
        return Err(at("auth.scheme", &problem));
    }
    let secret = set(auth.secret)
        .map(|reference| LoadedSecret::load(&reference, "auth.secret", sources))
        .transpose()?;
    let auth = AuthHeader { header, scheme, secret };
    if let Some(secret) = &auth.secret {
        auth.credential(secret).map_err(|problem| at("auth.secret", problem))?;
    }
    Ok(auth)
}

impl AuthHeader {
    /// The header with a secret in it.
    pub fn credential(&self, secret: &LoadedSecret) -> Result<Credential, &'static str> {
        let text = match &self.scheme {
            Some(scheme) => format!("{scheme} {}", secret.expose()),
            None => secret.expose().to_owned(),
        };
        let mut value =
            HeaderValue::try_from(text).map_err(|_| "cannot be the value of a header")?;
        value.set_sensitive(true);
        Ok(Credential { header: self.header.clone(), value, secret: secret.clone() })
    }
}

fn is_scheme(text: &str) -> bool {
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-';
    (1..=MAX_SCHEME).contains(&text.len()) && text.bytes().all(allowed)
}
