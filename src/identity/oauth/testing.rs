//! What the unit tests of mode `oauth` have in common: rules, keys, and an issuer on a socket.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ring::rand::SystemRandom;
use ring::signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair as _};
use rustls::RootCertStore;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

use crate::policy::{Auth, LoadContext, OAuth, PolicySet};
use crate::upstream::Trust;

/// The rules of a server of issuer `https://as.example` and audience `api://tools`, with more lines
/// in its `auth`.
pub(super) fn rules(more: &str) -> Arc<OAuth> {
    rules_of("https://as.example", more)
}

/// The same of another issuer.
pub(super) fn rules_of(issuer: &str, more: &str) -> Arc<OAuth> {
    let text = format!(
        "schema_version: v1\nserver: {{ name: s, upstream: 'http://h' }}\nauth:\n  mode: oauth\n  \
         issuer_url: '{issuer}'\n  audience: api://tools\n  {more}\n"
    );
    let set =
        PolicySet::from_text("p.yaml", &text, LoadContext { loopback: false, client_ca: false });
    let set = set.unwrap_or_else(|errors| panic!("{errors}\n{text}"));
    let server = set.servers().next().expect("one").clone();
    match &server.auth {
        Auth::OAuth(rules) => Arc::clone(rules),
        other => panic!("{}", other.mode()),
    }
}

/// Nobody's certificates: the issuers here speak plain HTTP on loopback.
pub(super) fn trust() -> Trust {
    Trust::roots(RootCertStore::empty()).expect("TLS")
}

/// A P-256 key of an issuer.
pub(super) struct Signer {
    id: String,
    pair: EcdsaKeyPair,
}

impl Signer {
    pub(super) fn new(id: &str) -> Self {
        let (kind, random) = (&ECDSA_P256_SHA256_FIXED_SIGNING, SystemRandom::new());
        let document = EcdsaKeyPair::generate_pkcs8(kind, &random).expect("a key");
        let pair = EcdsaKeyPair::from_pkcs8(kind, document.as_ref(), &random).expect("a key");
        Self { id: id.to_owned(), pair }
    }

    /// Its public half.
    pub(super) fn jwk(&self) -> Value {
        let (x, y) = self.pair.public_key().as_ref()[1..].split_at(32);
        let encode = |part| URL_SAFE_NO_PAD.encode(part);
        json!({"kty": "EC", "crv": "P-256", "kid": self.id, "x": encode(x), "y": encode(y)})
    }

    /// A token with these claims.
    pub(super) fn token(&self, claims: &str) -> String {
        self.with_header(&json!({"alg": "ES256", "kid": self.id}).to_string(), claims)
    }

    /// A token with this header, signed all the same.
    pub(super) fn with_header(&self, header: &str, claims: &str) -> String {
        let signed = format!("{}.{}", encoded(header), encoded(claims));
        let signature = self.pair.sign(&SystemRandom::new(), signed.as_bytes()).expect("signed");
        format!("{signed}.{}", URL_SAFE_NO_PAD.encode(signature))
    }
}

pub(super) fn encoded(text: &str) -> String {
    URL_SAFE_NO_PAD.encode(text)
}

/// An issuer that does what the test says.
pub(super) struct FakeIssuer {
    address: SocketAddr,
    state: Arc<State>,
}

struct State {
    keys: Mutex<Vec<Value>>,
    down: AtomicBool,
    /// The paths that were asked for, answered or not.
    asked: Mutex<Vec<String>>,
    /// What the introspection endpoint says of a token, found in the form.
    tokens: Mutex<Vec<(String, Value)>>,
}

impl FakeIssuer {
    pub(super) async fn start(keys: &[&Signer]) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("an address");
        let state = Arc::new(State {
            keys: Mutex::default(),
            down: AtomicBool::new(false),
            asked: Mutex::default(),
            tokens: Mutex::default(),
        });
        let serving = Arc::clone(&state);
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(serve(stream, address, Arc::clone(&serving)));
            }
        });
        let issuer = Self { address, state };
        issuer.publish(keys);
        issuer
    }

    pub(super) fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    pub(super) fn publish(&self, keys: &[&Signer]) {
        *self.state.keys.lock().expect("keys") = keys.iter().map(|key| key.jwk()).collect();
    }

    /// Lets every connection end without an answer.
    pub(super) fn down(&self, down: bool) {
        self.state.down.store(down, Ordering::SeqCst);
    }

    pub(super) fn know(&self, token: &str, answer: Value) {
        self.state.tokens.lock().expect("tokens").push((token.to_owned(), answer));
    }

    /// How often this path was asked for.
    pub(super) fn asked(&self, path: &str) -> usize {
        let asked = self.state.asked.lock().expect("asked");
        asked.iter().filter(|one| *one == path).count()
    }
}

async fn serve(mut stream: TcpStream, address: SocketAddr, state: Arc<State>) {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        let Ok(byte) = stream.read_u8().await else { return };
        head.push(byte);
    }
    let head = String::from_utf8(head).expect("an ASCII head");
    let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
    let mut form = vec![0; length.map_or(0, |length| length.parse().expect("a length"))];
    stream.read_exact(&mut form).await.expect("the form");
    let path = head.split(' ').nth(1).expect("a path").to_owned();
    state.asked.lock().expect("asked").push(path.clone());
    if state.down.load(Ordering::SeqCst) {
        return;
    }
    let base = format!("http://{address}");
    let answer = match path.as_str() {
        "/.well-known/oauth-authorization-server" => Some(json!({
            "issuer": base, "jwks_uri": format!("{base}/jwks"),
            "introspection_endpoint": format!("{base}/introspect"),
        })),
        "/jwks" => Some(json!({"keys": *state.keys.lock().expect("keys")})),
        "/introspect" => Some(introspected(&head, &form, &state)),
        _ => None,
    };
    let (status, body) = match answer {
        Some(answer) => ("200 OK", answer.to_string()),
        None => ("404 Not Found", String::new()),
    };
    let reply = format!("HTTP/1.1 {status}\r\nContent-Length: {}\r\n\r\n{body}", body.len());
    stream.write_all(reply.as_bytes()).await.expect("written");
}

/// `gate:way` and `s3cr3t`, form-encoded before they are put together (RFC 6749, 2.3.1).
fn introspected(head: &str, form: &[u8], state: &State) -> Value {
    let credential = base64::engine::general_purpose::STANDARD.encode("gate%3Away:s3cr3t");
    assert!(head.contains(&format!("authorization: Basic {credential}\r\n")), "{head}");
    let token = url::form_urlencoded::parse(form).find(|(name, _)| name == "token").expect("one").1;
    let tokens = state.tokens.lock().expect("tokens");
    let known = tokens.iter().find(|(known, _)| *known == token);
    known.map_or_else(|| json!({"active": false}), |(_, answer)| answer.clone())
}
