//! What can be wrong with an access token.

/// Why a token is refused. Whatever it is, the client needs another token (RFC 6750, 3.1).
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum TokenFault {
    /// Not a signed JWT in strict JSON, or one that asks for what this gateway does not know.
    #[error("the token is not an access token that this server can read")]
    Malformed,
    /// `alg` is `none`, symmetric, or not among those of the policy.
    #[error("the token is signed with an algorithm that this server does not take")]
    Algorithm,
    /// The issuer has no key that the token names.
    #[error("the token is signed with a key that its issuer does not have")]
    UnknownKey,
    /// The signature is not one of the key.
    #[error("the signature of the token is not valid")]
    Signature,
    /// `iss` is missing or names another issuer.
    #[error("the token is from another issuer")]
    Issuer,
    /// `aud` is missing or names other servers.
    #[error("the token is for another server")]
    Audience,
    /// `exp` is missing or past.
    #[error("the token has expired")]
    Expired,
    /// `nbf` is still to come.
    #[error("the token is not valid yet")]
    NotYetValid,
    /// The issuer says that the token is not, or no longer, one of its own.
    #[error("the token is not active")]
    Inactive,
    /// The claims name nobody, or somebody in a form that no policy could name.
    #[error("the token does not say whom it stands for")]
    Subject,
    /// The token is bound to a key of its holder (`cnf`), which this gateway does not ask for.
    #[error("the token needs a proof of possession, which this server does not take")]
    Bound,
}

impl TokenFault {
    /// The stable machine-readable name (CONTRACT section 6).
    pub const fn reason(self) -> &'static str {
        match self {
            Self::Malformed => "token_malformed",
            Self::Algorithm => "token_algorithm_not_allowed",
            Self::UnknownKey => "token_key_unknown",
            Self::Signature => "token_signature_invalid",
            Self::Issuer => "token_issuer_mismatch",
            Self::Audience => "token_audience_mismatch",
            Self::Expired => "token_expired",
            Self::NotYetValid => "token_not_yet_valid",
            Self::Inactive => "token_inactive",
            Self::Subject => "token_subject_unusable",
            Self::Bound => "token_bound",
        }
    }
}
