//! Refusals of mode `oauth`, by RFC 6750, RFC 9728 and the MCP authorization specification.

use super::{Advice, Refusal};
use crate::identity::TokenFault;
use crate::policy::Auth;

impl Refusal {
    /// An access token in the query, where everybody on the way may read it.
    pub fn token_in_query() -> Self {
        Self::new(
            400,
            "token_in_query",
            Advice::FixRequest,
            "An access token must not stand in the URL; send it as `Authorization: Bearer`, and \
             have this one revoked.",
        )
        .challenge(r#"Bearer error="invalid_request""#)
    }

    /// An access token that is not valid here.
    pub fn token(fault: TokenFault) -> Self {
        let message = format!("{}; get another one from its issuer.", sentence(fault));
        Self::new(401, fault.reason(), Advice::FixRequest, message)
            .challenge(format!(r#"Bearer error="invalid_token", error_description="{fault}""#))
    }

    /// A valid access token without a scope that the server asks for.
    pub fn insufficient_scope() -> Self {
        Self::new(
            403,
            "insufficient_scope",
            Advice::FixRequest,
            "The access token lacks a scope that this server asks for; get one with the scopes of \
             the WWW-Authenticate header.",
        )
        .challenge(r#"Bearer error="insufficient_scope""#)
    }

    /// The token's issuer would have to be asked, and does not answer.
    pub fn issuer_unavailable() -> Self {
        Self::new(
            503,
            "issuer_unavailable",
            Advice::RetrySameKey,
            "The access token cannot be verified, because its issuer does not answer; nothing was \
             sent, try again.",
        )
        .retry_after(5)
    }

    /// Says in the challenge, if there is one, what a client needs to get a token for this server.
    pub fn at_server(mut self, auth: &Auth) -> Self {
        if let (Auth::OAuth(rules), Some(challenge)) = (auth, &mut self.challenge)
            && !rules.challenge.is_empty()
        {
            let separator = if challenge.contains(' ') { ", " } else { " " };
            *challenge = format!("{challenge}{separator}{}", rules.challenge).into();
        }
        self
    }
}

/// What is wrong with a token, as a sentence begins.
fn sentence(fault: TokenFault) -> String {
    let text = fault.to_string();
    match text.strip_prefix("the ") {
        Some(rest) => format!("The {rest}"),
        None => text,
    }
}
