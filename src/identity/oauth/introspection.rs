//! Opaque tokens: the issuer is asked what they are (RFC 7662).

use std::fmt;
use std::time::{Duration, Instant};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hyper::Uri;
use hyper::header::HeaderValue;
use tokio::sync::Semaphore;
use tokio::time::timeout;
use url::form_urlencoded;

use super::claims::{self, Holder};
use super::fault::TokenFault;
use super::fetch::Fetcher;
use super::token;
use super::{Failure, Now};
use crate::claim::{Document, Value};
use crate::observe::Throttle;
use crate::policy::{Introspection, OAuth};
use crate::urls::shown;

/// Questions to one issuer at a time for one server; more wait, no longer than [`MAX_WAIT`].
const MAX_ASKING: usize = 16;

/// How long an exchange waits for its turn.
pub(super) const MAX_WAIT: Duration = Duration::from_secs(3);

/// How often the log says that the issuer cannot be asked.
const REPORT_PERIOD: Duration = Duration::from_secs(5);

/// Asks about the tokens of one server.
pub(super) struct Asker {
    rules: Introspection,
    turns: Semaphore,
    started: Instant,
    reports: Throttle,
}

impl Asker {
    pub(super) fn new(rules: Introspection, now: Instant) -> Self {
        Self {
            rules,
            turns: Semaphore::new(MAX_ASKING),
            started: now,
            reports: Throttle::new(REPORT_PERIOD),
        }
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
        now: Now,
    ) -> Result<(Holder, i64), Failure> {
        let turn = timeout(MAX_WAIT, self.turns.acquire()).await;
        let _turn = turn.ok().and_then(Result::ok).ok_or(Failure::Unanswered)?;
        let form = form_urlencoded::Serializer::new(String::new())
            .extend_pairs([("token", text(token)?), ("token_type_hint", "access_token")])
            .finish();
        let credential = self.credential().ok_or(Failure::Unanswered)?;
        let answer = fetcher.post(endpoint, credential, form).await;
        let answer = answer.map_err(|error| self.unanswered(&error, now))?;
        let document = Document::parse(&answer).ok();
        let answer = document.as_ref().and_then(token::object).ok_or_else(|| {
            self.unanswered(
                &format_args!("the answer of {} is no JSON object", shown(endpoint)),
                now,
            )
        })?;
        let (holder, until) = read(answer, oauth, now.wall_ms)?;
        let cache = i64::try_from(self.rules.cache.as_millis()).unwrap_or(i64::MAX);
        let believed = now.wall_ms.saturating_add(cache);
        Ok((holder, until.map_or(believed, |until| until.min(believed))))
    }

    /// The issuer is of no help, which the log says once in a while.
    pub(super) fn unanswered(&self, error: &dyn fmt::Display, now: Now) -> Failure {
        if self.reports.allow(now.steady.saturating_duration_since(self.started)) {
            tracing::warn!(%error, "the issuer cannot be asked about tokens");
        }
        Failure::Unanswered
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
    use super::super::testing::{rules, trust};
    use super::*;

    fn answer(text: &str) -> Result<(Holder, Option<i64>), TokenFault> {
        read(Document::parse(text.as_bytes()).expect("JSON").root(), &rules(""), 1_000_000)
    }

    /// Paused, so that what waits for its turn gives up before what waits for an answer.
    #[tokio::test(start_paused = true)]
    async fn so_many_questions_at_a_time_and_no_more() {
        let silent = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let endpoint = format!("http://{}/i", silent.local_addr().expect("an address"));
        let endpoint: Uri = endpoint.parse().expect("a URL");
        let rules =
            rules("introspection: { client_id: c, client_secret: env:CARGO_PKG_NAME, cache: 1s }");
        let now = Now::read();
        let asked = rules.introspection.clone().expect("introspection");
        let (asker, fetcher) = (Asker::new(asked, now.steady), Fetcher::new(trust()));
        let ask = |_| asker.ask(&endpoint, b"opaque", &rules, &fetcher, now);
        let mut asking: Vec<_> = (0..MAX_ASKING).map(|one| Box::pin(ask(one))).collect();
        for one in &mut asking {
            assert!(futures_util::poll!(one.as_mut()).is_pending());
        }
        assert_eq!(asker.turns.available_permits(), 0);
        let began = tokio::time::Instant::now();
        assert_eq!(ask(MAX_ASKING).await, Err(Failure::Unanswered));
        assert!(began.elapsed() >= MAX_WAIT, "it had no turn");
        drop(asking);
        assert_eq!(asker.turns.available_permits(), MAX_ASKING);
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
