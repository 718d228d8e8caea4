//! Mode `oauth`: this gateway as an OAuth 2.1 resource server, by the MCP authorization
//! specification (CONTRACT section 9).
//!
//! A token that was verified lately is a look into a table without a lock. Any other is verified on
//! the spot with the keys that are known; only a key that is not known, and an opaque token, make an
//! exchange wait for the issuer, within a bound.

mod cache;
mod claims;
mod discovery;
mod fault;
mod fetch;
mod introspection;
mod issuer;
mod keys;
mod token;

use std::collections::HashMap;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Instant;

use actix_web::http::header::HeaderMap;
use jiff::Timestamp;
use sha2::{Digest, Sha256};
use url::form_urlencoded;

pub use fault::TokenFault;

use super::{AuthError, Identity, Verified, bearer};
use crate::claim::Document;
use crate::policy::OAuth;
use crate::upstream::Trust;
use cache::{Cache, Entry};
use claims::Holder;
use fetch::Fetcher;
use introspection::Asker;
use issuer::{Issuer, Unanswered};
use token::{Form, Token};

/// The most bytes of a token.
pub const MAX_TOKEN_BYTES: usize = 16 * 1024;

/// The moment of an authentication: tokens live by the calendar, keys age by a clock that never
/// jumps.
#[derive(Debug, Clone, Copy)]
pub struct Now {
    /// Milliseconds since the epoch.
    pub wall_ms: i64,
    /// The steady clock.
    pub steady: Instant,
}

impl Now {
    /// This moment.
    pub fn read() -> Self {
        Self { wall_ms: Timestamp::now().as_millisecond(), steady: Instant::now() }
    }
}

/// Who sent a request, or the wait for it.
pub enum Authentication {
    /// It is known already.
    Known(Result<Identity, AuthError>),
    /// The issuer has to be asked.
    Asking(Pin<Box<dyn Future<Output = Result<Identity, AuthError>> + Send>>),
}

/// Every issuer that the policy names, each asked for its keys once for all its servers.
pub struct Issuers {
    fetcher: Fetcher,
    known: Mutex<HashMap<String, Weak<Issuer>>>,
}

impl Issuers {
    /// None yet; their certificates must come from these roots.
    pub fn new(trust: Trust) -> Self {
        Self { fetcher: Fetcher::new(trust), known: Mutex::default() }
    }

    /// The verifier of a server with these rules. It asks nobody until the first token comes.
    pub fn verifier(&self, rules: &Arc<OAuth>) -> Arc<Verifier> {
        let now = Instant::now();
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        known.retain(|_, issuer| issuer.strong_count() > 0);
        let issuer = known.get(&rules.issuer).and_then(Weak::upgrade).unwrap_or_else(|| {
            let issuer = Issuer::new(rules.issuer.clone(), self.fetcher.clone(), now);
            known.insert(rules.issuer.clone(), Arc::downgrade(&issuer));
            issuer
        });
        Arc::new(Verifier {
            asker: rules.introspection.clone().map(|asked| Asker::new(asked, now)),
            rules: Arc::clone(rules),
            issuer,
            fetcher: self.fetcher.clone(),
            cache: Cache::new(),
        })
    }
}

/// Verifies the tokens of one server.
pub struct Verifier {
    rules: Arc<OAuth>,
    issuer: Arc<Issuer>,
    asker: Option<Asker>,
    fetcher: Fetcher,
    cache: Cache,
}

/// Why a token could not be verified.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Failure {
    /// The token's own fault.
    Token(TokenFault),
    /// Its key is not known, or its issuer has to say what it is, and the issuer does not answer.
    Unanswered,
}

impl From<TokenFault> for Failure {
    fn from(fault: TokenFault) -> Self {
        Self::Token(fault)
    }
}

impl From<Unanswered> for Failure {
    fn from(_: Unanswered) -> Self {
        Self::Unanswered
    }
}

/// What a token needs that is not at hand.
enum Needs {
    /// A key.
    Key,
    /// Its issuer's word.
    Word,
}

impl Verifier {
    /// Whoever sent these headers, by the access token in them.
    ///
    /// # Errors
    ///
    /// No token, one that is not valid for this server, one without a scope that it needs, and an
    /// issuer that does not answer where it would have to.
    pub fn authenticate(self: &Arc<Self>, headers: &HeaderMap, now: Now) -> Authentication {
        let token = match bearer::presented(headers) {
            Ok(token) if token.len() > MAX_TOKEN_BYTES => {
                return Authentication::Known(Err(AuthError::Token(TokenFault::Malformed)));
            }
            Ok(token) => token,
            Err(error) => return Authentication::Known(Err(error)),
        };
        self.issuer.keep_fresh(now.steady);
        let digest: cache::Digest = Sha256::digest(token).into();
        match self.at_hand(token, digest, now) {
            Ok(Ok(holder)) => Authentication::Known(admitted(holder)),
            Ok(Err(needs)) => {
                let (verifier, token) = (Arc::clone(self), token.to_vec());
                Authentication::Asking(Box::pin(async move {
                    verifier.asked(&token, digest, needs, now).await.and_then(admitted)
                }))
            }
            Err(fault) => Authentication::Known(Err(AuthError::Token(fault))),
        }
    }

    /// What can be said without asking anybody.
    fn at_hand(
        &self,
        token: &[u8],
        digest: cache::Digest,
        now: Now,
    ) -> Result<Result<Holder, Needs>, TokenFault> {
        let known = self.issuer.known();
        let keys = known.as_ref().map(|known| &known.keys.digest);
        if let Some(holder) = self.cache.get(&digest, keys, now.wall_ms) {
            return Ok(Ok(holder));
        }
        match token::read(token)? {
            Form::Signed(token) => Ok(self.signed(&token, digest, now)?.ok_or(Needs::Key)),
            Form::Opaque if self.asker.is_some() => Ok(Err(Needs::Word)),
            Form::Opaque => Err(TokenFault::Malformed),
        }
    }

    /// Verifies a signed token; `None` where its key is not among those known. What it says is
    /// looked at first, so that only a token which would be valid can make anybody look for a key.
    fn signed(
        &self,
        token: &Token<'_>,
        digest: cache::Digest,
        now: Now,
    ) -> Result<Option<Holder>, TokenFault> {
        if !self.rules.algorithms.contains(&token.algorithm) {
            return Err(TokenFault::Algorithm);
        }
        let document = Document::parse(&token.claims).map_err(|_| TokenFault::Malformed)?;
        let claims = token::object(&document).ok_or(TokenFault::Malformed)?;
        claims::check_issuer(claims, &self.rules)?;
        claims::check_audience(claims, &self.rules)?;
        let until = claims::check_times(claims, &self.rules, now.wall_ms)?;
        let until_ms = until.ok_or(TokenFault::Expired)?;
        claims::check_unbound(claims)?;
        let holder = claims::holder(claims, &self.rules)?;
        let known = self.issuer.known();
        let Some(keys) = known.as_ref().map(|known| &known.keys) else { return Ok(None) };
        let Some(key) = keys.find(token.key_id.as_deref(), token.algorithm) else {
            return Ok(None);
        };
        if !key.verifies(token.algorithm, token.signed, &token.signature) {
            return Err(TokenFault::Signature);
        }
        let entry =
            Entry { token: digest, holder: holder.clone(), until_ms, keys: Some(keys.digest) };
        self.cache.put(entry, now.wall_ms);
        Ok(Some(holder))
    }

    async fn asked(
        &self,
        token: &[u8],
        digest: cache::Digest,
        needs: Needs,
        now: Now,
    ) -> Result<Holder, AuthError> {
        let asked = match needs {
            Needs::Key => self.with_new_keys(token, digest, now).await,
            Needs::Word => self.by_its_issuer(token, digest, now).await,
        };
        asked.map_err(|failure| match failure {
            Failure::Token(fault) => AuthError::Token(fault),
            Failure::Unanswered => AuthError::IssuerUnavailable,
        })
    }

    async fn with_new_keys(
        &self,
        token: &[u8],
        digest: cache::Digest,
        now: Now,
    ) -> Result<Holder, Failure> {
        let answered = self.issuer.refreshed(now.steady).await;
        // Another exchange's refresh may have brought the key even where this one failed.
        if let Form::Signed(token) = token::read(token)?
            && let Some(holder) = self.signed(&token, digest, now)?
        {
            return Ok(holder);
        }
        answered?;
        Err(TokenFault::UnknownKey.into())
    }

    async fn by_its_issuer(
        &self,
        token: &[u8],
        digest: cache::Digest,
        now: Now,
    ) -> Result<Holder, Failure> {
        let asker = self.asker.as_ref().ok_or(TokenFault::Malformed)?;
        let endpoint = match asker.endpoint() {
            Some(endpoint) => endpoint.clone(),
            None => self.discovered_endpoint(asker, now).await?,
        };
        let answer = asker.ask(&endpoint, token, &self.rules, &self.fetcher, now).await;
        let (holder, until_ms) = answer?;
        let entry = Entry { token: digest, holder: holder.clone(), until_ms, keys: None };
        self.cache.put(entry, now.wall_ms);
        Ok(holder)
    }

    async fn discovered_endpoint(&self, asker: &Asker, now: Now) -> Result<hyper::Uri, Failure> {
        let endpoint = || {
            let known = self.issuer.known();
            known.as_ref().and_then(|known| known.metadata.introspection.clone())
        };
        if let Some(endpoint) = endpoint() {
            return Ok(endpoint);
        }
        self.issuer.refreshed(now.steady).await?;
        let missing = "its metadata names no introspection endpoint; set \
                       `auth.introspection.endpoint`";
        endpoint().ok_or_else(|| asker.unanswered(&missing, now))
    }
}

/// A token that is valid may still lack a scope.
fn admitted(holder: Holder) -> Result<Identity, AuthError> {
    match holder.has_scopes {
        true => Ok(Identity::Verified(Verified::new(&holder.principal))),
        false => Err(AuthError::InsufficientScope),
    }
}

/// Whether a query carries an access token (RFC 6750, 2.3), which would end up in logs on its way:
/// none is taken from there, and none is passed on.
pub fn is_token_in_query(query: &str) -> bool {
    form_urlencoded::parse(query.as_bytes()).any(|(name, _)| name == "access_token")
}

#[cfg(test)]
mod testing;
#[cfg(test)]
mod tests;
