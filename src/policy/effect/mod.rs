//! What a tool declares of its effect (EFFECTS section 2).

mod build;
mod carrier;
pub(super) mod fields;

use hyper::header::HeaderName;

pub(super) use build::{build, is_environment};
pub(super) use carrier::Carrier;

use super::words::Word;
use crate::claim::Pointer;
use crate::upstream::Statuses;

/// The most characters of an environment's name.
pub const MAX_ENVIRONMENT: usize = 64;

/// A tool's effect spec, beside its side effect, which every tool may declare.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Effect {
    /// Where it takes effect, for rules of the policy; free text of at most [`MAX_ENVIRONMENT`]
    /// characters.
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

impl Word for OnUnknown {
    const WORDS: &'static [(&'static str, Self)] =
        &[("refuse", Self::Refuse), ("redispatch", Self::Redispatch)];
}
