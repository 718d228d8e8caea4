//! Opaque tokens: the issuer is asked what they are (RFC 7662).

use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hyper::Uri;
use hyper::header::HeaderValue;
use tokio::sync::Semaphore;
use tokio::time::timeout;
use url::form_urlencoded;

use super::Failure;
use super::claims::{self, Holder};
use super::fault::TokenFault;
use super::fetch::Fetcher;
use super::token;
use crate::claim::{Document, Value};
use crate::policy::{Introspection, OAuth};

/// Questions to one issuer at a time for one server; more wait, no longer than [`MAX_WAIT`].
const MAX_ASKING: usize = 16;

/// How long an exchange waits for its turn.
const MAX_WAIT: Duration = Duration::from_secs(3);

/// Asks about the tokens of one server.
pub(super) struct Asker {
    rules: Introspection,
    turns: Semaphore,
}

impl Asker {
    pub(super) fn new(rules: Introspection) -> Self {
        Self { rules, turns: Semaphore::new(MAX_ASKING) }
    }

    /// The configured endpoint.
    pub(super) fn endpoint(&self) -> Option<&Uri> {
        self.rules.endpoint.as_ref()
    }

    /// Whom a token stands for, and until when that may be believed.
    pub(super) async fn ask(
        &self,
        endpoint: &Uri,
        token: &[u8],
        oauth: &OAuth,
        fetcher: &Fetcher,
        now_ms: i64,
    ) -> Result<(Holder, i64), Failure> {
        let turn = timeout(MAX_WAIT, self.turns.acquire()).await;
        let _turn = turn.ok().and_then(Result::ok).ok_or(Failure::Unanswered)?;
        let form = form_urlencoded::Serializer::new(String::new())
            .extend_pairs([("token", text(token)?), ("token_type_hint", "access_token")])
            .finish();
        let credential = self.credential().ok_or(Failure::Unanswered)?;
        let answer = fetcher.post(endpoint, credential, form).await.map_err(|error| {
            tracing::warn!(%error, "the issuer cannot be asked about a token");
            Failure::Unanswered
        })?;
        let document = Document::parse(&answer).ok();
        let answer = document.as_ref().and_then(token::object).ok_or(Failure::Unanswered)?;
        let (holder, until) = read(answer, oauth, now_ms)?;
        let cache = i64::try_from(self.rules.cache.as_millis()).unwrap_or(i64::MAX);
        let believed = now_ms.saturating_add(cache);
        Ok((holder, until.map_or(believed, |until| until.min(believed))))
    }

    /// `client_secret_basic` (RFC 6749, 2.3.1): both parts are form-encoded first.
    fn credential(&self) -> Option<HeaderValue> {
        let encoded =
            |text: &str| -> String { form_urlencoded::byte_serialize(text.as_bytes()).collect() };
        let (id, secret) = (&self.rules.client_id, self.rules.client_secret.expose());
        let pair = STANDARD.encode(format!("{}:{}", encoded(id), encoded(secret)));
        let mut value = HeaderValue::try_from(format!("Basic {pair}")).ok()?;
        value.set_sensitive(true);
        Some(value)
    }
}

fn text(token: &[u8]) -> Result<&str, TokenFault> {
    std::str::from_utf8(token).map_err(|_| TokenFault::Malformed)
}

/// An answer about a token is believed as far as the claims of a JWT would be.
fn read(
    answer: Value<'_, '_>,
    oauth: &OAuth,
    now_ms: i64,
) -> Result<(Holder, Option<i64>), TokenFault> {
    if answer.get("active").map(Value::raw) != Some("true") {
        return Err(TokenFault::Inactive);
    }
    if answer.get("iss").is_some() {
        claims::check_issuer(answer, oauth)?;
    }
    claims::check_audience(answer, oauth)?;
    let until = claims::check_times(answer, oauth, now_ms)?;
    claims::check_unbound(answer)?;
    Ok((claims::holder(answer, oauth)?, until))
}

#[cfg(test)]
mod tests {
    use super::super::testing::rules;
    use super::*;

    fn answer(text: &str) -> Result<(Holder, Option<i64>), TokenFault> {
        read(Document::parse(text.as_bytes()).expect("JSON").root(), &rules(""), 1_000_000)
    }

    #[test]
    fn only_an_active_token_for_this_server_stands_for_somebody() {
        let (holder, until) =
            answer(r#"{"active":true,"aud":"api://tools","sub":"ann","exp":2000}"#).expect("good");
        assert_eq!(holder.principal.human(), Some("ann"));
        assert_eq!(until, Some(2_030_000));
        let forever = answer(r#"{"active":true,"aud":["api://tools"],"sub":"ann"}"#);
        assert_eq!(forever.expect("good").1, None);
        for (text, fault) in [
            (r#"{"active":false}"#, TokenFault::Inactive),
            (r#"{"active":"true","aud":"api://tools","sub":"ann"}"#, TokenFault::Inactive),
            (r#"{"aud":"api://tools","sub":"ann"}"#, TokenFault::Inactive),
            (r#"{"active":true,"sub":"ann"}"#, TokenFault::Audience),
            (r#"{"active":true,"aud":"x","sub":"ann"}"#, TokenFault::Audience),
            (
                r#"{"active":true,"aud":"api://tools","sub":"ann","iss":"https://x"}"#,
                TokenFault::Issuer,
            ),
            (r#"{"active":true,"aud":"api://tools","sub":"ann","exp":900}"#, TokenFault::Expired),
            (
                r#"{"active":true,"aud":"api://tools","sub":"ann","nbf":1100}"#,
                TokenFault::NotYetValid,
            ),
            (r#"{"active":true,"aud":"api://tools"}"#, TokenFault::Subject),
            (r#"{"active":true,"aud":"api://tools","sub":"a","cnf":{}}"#, TokenFault::Bound),
        ] {
            assert_eq!(answer(text), Err(fault), "{text}");
        }
    }
}
