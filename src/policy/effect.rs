//! What a tool declares of its effect (EFFECTS section 2).

use hyper::header::HeaderName;

use crate::claim::Pointer;
use crate::upstream::Statuses;

/// A tool's effect spec, beside its side effect, which every tool may declare.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Effect {
    /// Where it takes effect, for rules of the policy; free text.
    pub environment: Option<String>,
    /// How the key reaches the vendor.
    pub binding: KeyBinding,
    /// What statuses mean.
    pub statuses: Statuses,
    /// Whether an unknown outcome may be asked for again.
    pub on_unknown: OnUnknown,
}

/// How the key reaches the vendor.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum KeyBinding {
    /// It does not: the vendor does not dedupe.
    #[default]
    Unsupported,
    /// In this header.
    Header(HeaderName),
    /// At this place of the request's body.
    Body(Pointer),
}

impl KeyBinding {
    /// Whether the vendor dedupes by the key.
    pub const fn is_supported(&self) -> bool {
        !matches!(self, Self::Unsupported)
    }

    /// As a receipt tells it.
    pub fn describe(&self) -> String {
        match self {
            Self::Unsupported => "unsupported".to_owned(),
            Self::Header(name) => format!("header {name}"),
            Self::Body(pointer) => format!("body_pointer {pointer}"),
        }
    }
}

/// What becomes of a call whose record says that the outcome is unknown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum OnUnknown {
    /// It is refused.
    #[default]
    Refuse,
    /// It is sent again with the same vendor key; only with a binding.
    Redispatch,
}
