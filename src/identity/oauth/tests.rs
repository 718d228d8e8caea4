//! Tokens, good and bad, against an issuer on a socket; the time is the test's.

use std::time::Duration;

use actix_web::http::header::{AUTHORIZATION, HeaderValue};
use serde_json::{Value, json};

use super::testing::{FakeIssuer, Signer, encoded, rules_of, trust};
use super::*;

/// When these tests happen, in seconds since the epoch.
const NOW_S: i64 = 1_800_000_000;

const INTROSPECTION: &str = "introspection: { client_id: 'gate:way', \
                             client_secret: file:SECRET, cache: 10s }";

struct Setting {
    issuer: FakeIssuer,
    key: Signer,
    verifier: Arc<Verifier>,
    /// Holds the secret.
    _folder: tempfile::TempDir,
}

impl Setting {
    async fn new(more: &str) -> Self {
        let key = Signer::new("k1");
        let issuer = FakeIssuer::start(&[&key]).await;
        let folder = tempfile::tempdir().expect("a folder");
        let secret = folder.path().join("secret");
        std::fs::write(&secret, "s3cr3t\n").expect("written");
        let more = more.replace("SECRET", &secret.to_string_lossy());
        let verifier = Issuers::new(trust()).verifier(&rules_of(&issuer.url(), &more));
        Self { issuer, key, verifier, _folder: folder }
    }

    /// Good claims of ann, with a change.
    fn claims(&self, change: impl FnOnce(&mut Value)) -> String {
        let mut claims = json!({
            "iss": self.issuer.url(), "aud": "api://tools", "sub": "ann", "exp": NOW_S + 60,
        });
        change(&mut claims);
        claims.to_string()
    }

    fn token(&self) -> String {
        self.key.token(&self.claims(|_| {}))
    }

    async fn who(&self, token: &str) -> Result<String, AuthError> {
        self.who_at(token, now(0)).await
    }

    async fn who_at(&self, token: &str, now: Now) -> Result<String, AuthError> {
        match self.verifier.authenticate(&bearer(token), now) {
            Authentication::Known(outcome) => outcome,
            Authentication::Asking(outcome) => outcome.await,
        }
        .map(|identity| {
            let caller = identity.verified().expect("verified").principal();
            caller.human().unwrap_or_default().to_owned()
        })
    }

    /// Who it is, where nobody has to be asked.
    fn at_once(&self, token: &str, now: Now) -> Option<Result<Identity, AuthError>> {
        match self.verifier.authenticate(&bearer(token), now) {
            Authentication::Known(outcome) => Some(outcome),
            Authentication::Asking(_) => None,
        }
    }
}

/// So many seconds after [`NOW_S`], when another refresh may begin.
fn now(after_s: i64) -> Now {
    Now { wall_ms: (NOW_S + after_s) * 1000, steady: Instant::now() + issuer::MIN_BETWEEN }
}

fn bearer(token: &str) -> HeaderMap {
    let mut headers = HeaderMap::new();
    headers.insert(AUTHORIZATION, HeaderValue::from_str(&format!("Bearer {token}")).expect("text"));
    headers
}

#[actix_web::test]
async fn the_first_token_fetches_the_keys_and_the_next_needs_nobody() {
    let setting = Setting::new("").await;
    let (token, other) = (
        setting.token(),
        setting.key.token(&setting.claims(|claims| {
            claims["sub"] = json!("ben");
        })),
    );
    assert!(setting.at_once(&token, now(0)).is_none());
    assert_eq!(setting.who(&token).await.as_deref(), Ok("ann"));
    assert!(matches!(setting.at_once(&token, now(0)), Some(Ok(_))));
    assert!(matches!(setting.at_once(&other, now(0)), Some(Ok(_))), "the keys are known");
    assert_eq!(setting.issuer.asked("/jwks"), 1);
}

#[actix_web::test]
async fn each_bad_token_is_refused_with_its_reason() {
    let setting = Setting::new("").await;
    setting.who(&setting.token()).await.expect("the keys");
    let signed = |change: &dyn Fn(&mut Value)| setting.key.token(&setting.claims(change));
    let good = setting.claims(|_| {});
    let unsigned = |header: &str, signature: &str| {
        format!("{}.{}.{signature}", encoded(header), encoded(&good))
    };
    let public = setting.key.jwk().to_string();
    let by_public_key = hmac_sha256(public.as_bytes(), &unsigned(r#"{"alg":"HS256"}"#, ""));
    let forger = Signer::new("k1");
    let issuer = setting.issuer.url();
    for (what, token, fault) in [
        ("alg none", unsigned(r#"{"alg":"none"}"#, ""), TokenFault::Algorithm),
        (
            "HS256 by the public key",
            unsigned(r#"{"alg":"HS256","kid":"k1"}"#, &by_public_key),
            TokenFault::Algorithm,
        ),
        (
            "an algorithm that is not pinned",
            setting.key.with_header(r#"{"alg":"ES384","kid":"k1"}"#, &good),
            TokenFault::Algorithm,
        ),
        (
            "another algorithm than the key's",
            setting.key.with_header(r#"{"alg":"RS256","kid":"k1"}"#, &good),
            TokenFault::UnknownKey,
        ),
        ("another's signature", forger.token(&good), TokenFault::Signature),
        ("no signature", unsigned(r#"{"alg":"ES256","kid":"k1"}"#, ""), TokenFault::Signature),
        (
            "a kid that points nowhere",
            setting.key.with_header(r#"{"alg":"ES256","kid":"../../etc/passwd"}"#, &good),
            TokenFault::UnknownKey,
        ),
        ("another issuer", signed(&|c| c["iss"] = json!("https://evil")), TokenFault::Issuer),
        ("no issuer", signed(&|c| c["iss"] = json!(null)), TokenFault::Issuer),
        ("another audience", signed(&|c| c["aud"] = json!("api://other")), TokenFault::Audience),
        ("expired", signed(&|c| c["exp"] = json!(NOW_S - 30)), TokenFault::Expired),
        (
            "no expiry",
            setting.key.token(&format!(r#"{{"iss":"{issuer}","aud":"api://tools","sub":"ann"}}"#)),
            TokenFault::Expired,
        ),
        ("not yet valid", signed(&|c| c["nbf"] = json!(NOW_S + 31)), TokenFault::NotYetValid),
        ("nobody", signed(&|c| c["sub"] = json!("")), TokenFault::Subject),
        ("bound", signed(&|c| c["cnf"] = json!({"jkt": "x"})), TokenFault::Bound),
        (
            "duplicate claims",
            setting.key.token(&good.replacen('{', r#"{"sub":"eve","#, 1)),
            TokenFault::Malformed,
        ),
        ("no object", setting.key.token("[]"), TokenFault::Malformed),
        ("no JWT", "opaque".to_owned(), TokenFault::Malformed),
        ("100 KB", setting.key.token(&" ".repeat(75 * 1024)), TokenFault::Malformed),
    ] {
        assert_eq!(setting.who(&token).await, Err(AuthError::Token(fault)), "{what}");
    }
    let within = signed(&|c| c["exp"] = json!(NOW_S - 29));
    assert_eq!(setting.who(&within).await.as_deref(), Ok("ann"), "within the leeway");
    let within = signed(&|c| c["nbf"] = json!(NOW_S + 30));
    assert_eq!(setting.who(&within).await.as_deref(), Ok("ann"), "within the leeway");
}

/// As a library would sign that took the key's text for a secret.
fn hmac_sha256(key: &[u8], signed: &str) -> String {
    use base64::Engine as _;
    let key = ring::hmac::Key::new(ring::hmac::HMAC_SHA256, key);
    let tag = ring::hmac::sign(&key, signed.trim_end_matches('.').as_bytes());
    base64::engine::general_purpose::URL_SAFE_NO_PAD.encode(tag)
}

#[actix_web::test]
async fn a_remembered_token_ends_with_its_time_and_with_its_key() {
    let setting = Setting::new("").await;
    let token = setting.token();
    setting.who(&token).await.expect("ann");
    let outcome = setting.at_once(&token, now(89)).expect("at once");
    assert!(outcome.is_ok(), "until exp and leeway are over");
    let outcome = setting.at_once(&token, now(90)).expect("at once");
    assert_eq!(outcome, Err(AuthError::Token(TokenFault::Expired)));

    let next = Signer::new("k2");
    setting.issuer.publish(&[&next]);
    let by_next = next.token(&setting.claims(|_| {}));
    assert_eq!(setting.who(&by_next).await.as_deref(), Ok("ann"), "an unknown key is looked for");
    let fault = AuthError::Token(TokenFault::UnknownKey);
    assert_eq!(setting.who(&token).await, Err(fault), "the old key was withdrawn");
}

#[actix_web::test]
async fn without_the_issuer_known_keys_go_on_and_unknown_ones_let_nobody_in() {
    let setting = Setting::new(INTROSPECTION).await;
    let token = setting.token();
    let unavailable = || Err(AuthError::IssuerUnavailable);
    setting.issuer.down(true);
    assert_eq!(setting.who(&token).await, unavailable(), "before the first keys");
    assert_eq!(setting.who("opaque").await, unavailable());
    setting.issuer.down(false);
    assert_eq!(setting.who(&token).await.as_deref(), Ok("ann"));
    setting.issuer.down(true);
    let another = setting.key.token(&setting.claims(|claims| claims["sub"] = json!("ben")));
    assert_eq!(setting.who(&another).await.as_deref(), Ok("ben"), "by a key that is known");
    let unknown = Signer::new("k9").token(&setting.claims(|_| {}));
    assert_eq!(setting.who(&unknown).await, unavailable());
    assert_eq!(setting.who("opaque").await, unavailable());
    let expired = Signer::new("k9").token(&setting.claims(|c| c["exp"] = json!(1)));
    let fault = AuthError::Token(TokenFault::Expired);
    assert_eq!(setting.who(&expired).await, Err(fault), "no issuer could make it valid");
}

#[actix_web::test]
async fn a_token_without_a_scope_is_valid_and_insufficient_also_when_it_is_remembered() {
    let setting = Setting::new("scopes: [mcp:call]").await;
    let without = setting.key.token(&setting.claims(|claims| claims["scope"] = json!("other")));
    for _ in 0..2 {
        assert_eq!(setting.who(&without).await, Err(AuthError::InsufficientScope));
    }
    let with = setting.key.token(&setting.claims(|claims| claims["scope"] = json!("x mcp:call")));
    assert_eq!(setting.who(&with).await.as_deref(), Ok("ann"));
}

#[actix_web::test]
async fn an_opaque_token_is_what_its_issuer_says_for_a_while() {
    let setting = Setting::new(INTROSPECTION).await;
    let active = json!({"active": true, "aud": "api://tools", "sub": "ann", "exp": NOW_S + 5});
    setting.issuer.know("o/p+aque=", active);
    assert_eq!(setting.who("o/p+aque=").await.as_deref(), Ok("ann"));
    assert!(setting.at_once("o/p+aque=", now(9)).is_some_and(|outcome| outcome.is_ok()));
    assert_eq!(setting.issuer.asked("/introspect"), 1);
    assert!(setting.at_once("o/p+aque=", now(10)).is_none(), "asked again after `cache`");
    let inactive = AuthError::Token(TokenFault::Inactive);
    assert_eq!(setting.who("unheard-of").await, Err(inactive));
    assert_eq!(setting.who("unheard-of").await, Err(inactive));
    assert_eq!(setting.issuer.asked("/introspect"), 3, "what is not active is not remembered");
    let expired = setting.who_at("o/p+aque=", now(35)).await;
    assert_eq!(expired, Err(AuthError::Token(TokenFault::Expired)));
}

#[actix_web::test]
async fn servers_of_one_issuer_share_its_keys_and_no_tokens() {
    let setting = Setting::new("").await;
    let issuers = Issuers::new(trust());
    let url = setting.issuer.url();
    let (a, b) =
        (issuers.verifier(&rules_of(&url, "")), issuers.verifier(&rules_of(&url, "scopes: [s]")));
    let Authentication::Asking(asked) = a.authenticate(&bearer(&setting.token()), now(0)) else {
        panic!("the keys are not known yet")
    };
    asked.await.expect("ann");
    let Authentication::Known(known) = b.authenticate(&bearer(&setting.token()), now(0)) else {
        panic!("the keys are known")
    };
    assert_eq!(known, Err(AuthError::InsufficientScope));
    assert_eq!(setting.issuer.asked("/jwks"), 1);
}

#[test]
fn a_token_in_a_query_is_seen_however_it_is_written() {
    for query in ["access_token=x", "a=b&access_token", "access%5Ftoken=x", "%61ccess_token=x&y"] {
        assert!(is_token_in_query(query), "{query}");
    }
    for query in
        ["", "a=access_token", "my_access_token=x", "access_tokens=x", "a=b%26access_token"]
    {
        assert!(!is_token_in_query(query), "{query}");
    }
}

#[test]
fn no_wait_adds_up_to_more_than_a_client_bears() {
    // For the metadata, for a turn, and for the answer.
    let waits = [issuer::MAX_WAIT, introspection::MAX_WAIT, fetch::EXCHANGE_TIMEOUT];
    assert!(waits.iter().sum::<Duration>() <= Duration::from_secs(10));
}
