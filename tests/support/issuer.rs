//! An OAuth issuer that does what the test says; a real one is in tests/sdk/ts.

use super::reply::{Reply, http, json_reply};
use super::upstream::{Received, Upstream};
use base64::Engine;
use base64::prelude::BASE64_URL_SAFE_NO_PAD as BASE64URL;
use ring::rand::SystemRandom;
use ring::signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair};
use serde_json::{Value, json};
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::{SystemTime, UNIX_EPOCH};

/// A signing key of an issuer, or of somebody who would like to be one.
pub struct Signer {
    id: String,
    pair: EcdsaKeyPair,
}

impl Signer {
    /// A new P-256 key under this id.
    pub fn new(id: &str) -> Self {
        let (kind, random) = (&ECDSA_P256_SHA256_FIXED_SIGNING, SystemRandom::new());
        let document = EcdsaKeyPair::generate_pkcs8(kind, &random).expect("a key");
        let pair = EcdsaKeyPair::from_pkcs8(kind, document.as_ref(), &random).expect("a key");
        Self { id: id.to_owned(), pair }
    }

    /// Its public half.
    pub fn jwk(&self) -> Value {
        let (x, y) = self.pair.public_key().as_ref()[1..].split_at(32);
        json!({
            "kty": "EC", "crv": "P-256", "kid": self.id, "use": "sig",
            "x": BASE64URL.encode(x), "y": BASE64URL.encode(y),
        })
    }

    /// A token with these claims, by RFC 9068.
    pub fn token(&self, claims: &str) -> String {
        self.with_header(&json!({"alg": "ES256", "typ": "at+jwt", "kid": self.id}), claims)
    }

    /// A token with this header, signed all the same.
    pub fn with_header(&self, header: &Value, claims: &str) -> String {
        let signed = unsigned(header, claims);
        let signature = self.pair.sign(&SystemRandom::new(), signed.as_bytes()).expect("signed");
        format!("{signed}.{}", BASE64URL.encode(signature))
    }
}

/// The first two parts of a token.
pub fn unsigned(header: &Value, claims: &str) -> String {
    format!("{}.{}", BASE64URL.encode(header.to_string()), BASE64URL.encode(claims))
}

/// Seconds since the epoch.
pub fn now_s() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970").as_secs()
}

#[derive(Default)]
struct State {
    base: String,
    keys: Vec<Value>,
    down: bool,
    no_introspection: bool,
    tokens: Vec<(String, Value)>,
}

/// The issuer.
pub struct Issuer {
    /// Its first key.
    pub key: Signer,
    state: Arc<Mutex<State>>,
    server: Upstream,
}

impl Issuer {
    /// An issuer with one key.
    pub async fn start() -> Self {
        let state = Arc::new(Mutex::new(State::default()));
        let answering = Arc::clone(&state);
        let server = Upstream::with(move |_, request| answer(&answering.lock().unwrap(), request));
        let issuer = Self { key: Signer::new("k1"), state, server: server.await };
        issuer.is_called(&format!("http://{}", issuer.address()));
        issuer.publish(&[&issuer.key]);
        issuer
    }

    /// What it is called.
    pub fn url(&self) -> String {
        self.state.lock().unwrap().base.clone()
    }

    /// Where it listens, in plain HTTP.
    pub fn address(&self) -> SocketAddr {
        self.server.address()
    }

    /// From now on this is what it is called.
    pub fn is_called(&self, url: &str) {
        self.state.lock().unwrap().base = url.to_owned();
    }

    /// From now on these are its keys.
    pub fn publish(&self, keys: &[&Signer]) {
        self.state.lock().unwrap().keys = keys.iter().map(|key| key.jwk()).collect();
    }

    /// From now on every connection is reset, or no longer.
    pub fn down(&self, down: bool) {
        self.state.lock().unwrap().down = down;
    }

    /// From now on its metadata name no introspection endpoint, or one again.
    pub fn has_no_introspection(&self, none: bool) {
        self.state.lock().unwrap().no_introspection = none;
    }

    /// From now on this is what it says of an opaque token.
    pub fn knows(&self, token: &str, answer: Value) {
        let mut state = self.state.lock().unwrap();
        state.tokens.retain(|(known, _)| known != token);
        state.tokens.push((token.to_owned(), answer));
    }

    /// Claims of alice for the server of [`Issuer::auth`], with a change.
    pub fn claims(&self, change: impl FnOnce(&mut Value)) -> String {
        let mut claims = json!({
            "iss": self.url(), "aud": RESOURCE, "sub": "alice", "client_id": "agent-a",
            "iat": now_s(), "exp": now_s() + 600, "scope": "mcp:call", "jti": "t-1",
        });
        change(&mut claims);
        claims.to_string()
    }

    /// A good token with a change.
    pub fn token(&self, change: impl FnOnce(&mut Value)) -> String {
        self.key.token(&self.claims(change))
    }

    /// The `auth` table of a server that takes its tokens.
    pub fn auth(&self) -> Value {
        json!({
            "mode": "oauth", "issuer_url": self.url(), "resource": RESOURCE,
            "scopes": ["mcp:call"],
        })
    }
}

/// What the server is called from outside.
pub const RESOURCE: &str = "https://gw.example/tools/mcp";

fn answer(state: &State, request: &Received) -> Reply {
    if state.down {
        return Reply::silent().reset();
    }
    let base = &state.base;
    let target = request.line.split(' ').nth(1).unwrap_or_default();
    let found = match target.split('?').next().unwrap_or_default() {
        "/.well-known/openid-configuration" => {
            let endpoint = (!state.no_introspection).then(|| format!("{base}/introspect"));
            json!({
                "issuer": base, "jwks_uri": format!("{base}/jwks"),
                "introspection_endpoint": endpoint,
            })
        }
        "/jwks" => json!({"keys": state.keys}),
        "/introspect" => introspected(state, request),
        _ => return Reply::raw(http(404, &[], "")),
    };
    Reply::raw(json_reply(200, &found.to_string()))
}

fn introspected(state: &State, request: &Received) -> Value {
    // `gateway:s3cr3t`
    assert_eq!(request.header("authorization"), Some("Basic Z2F0ZXdheTpzM2NyM3Q="));
    let text = request.text();
    let named = |token: &str| text.split('&').any(|pair| pair == format!("token={token}"));
    let known = state.tokens.iter().find(|(token, _)| named(token));
    known.map_or_else(|| json!({"active": false}), |(_, answer)| answer.clone())
}
