//! Receipts: what a claim was, every attempt under it and what it came to, for longer than its
//! record stands (EFFECTS section 6).

mod query;
mod text;

use std::fmt;
use std::time::Duration;

use jiff::Timestamp;
use serde::{Deserialize, Serialize, Serializer};
use smallvec::SmallVec;

pub use query::{MAX_RECEIPT_PAGE, QueryError, ReceiptQuery};
pub use text::Shared;

use super::asked::Domain;
use crate::claim::{RequestHash, SlotKey};

/// The name of a receipt: `rcpt_`, 16 hex digits that tell its domain, 32 of its own.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ReceiptId {
    domain: u64,
    number: u128,
}

impl ReceiptId {
    const PREFIX: &str = "rcpt_";
    const DOMAIN: usize = 16;
    const LENGTH: usize = Self::PREFIX.len() + Self::DOMAIN + 32;

    /// A name for a receipt of `domain`, made of 16 random bytes.
    pub fn new(domain: &Domain<'_>, random: [u8; 16]) -> Self {
        Self { domain: domain.number(), number: u128::from_be_bytes(random) }
    }

    /// Reads a name; `None` for what is none.
    pub fn parse(text: &str) -> Option<Self> {
        let digits = text.strip_prefix(Self::PREFIX)?;
        let hex = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
        if text.len() != Self::LENGTH || !digits.bytes().all(hex) {
            return None;
        }
        let (domain, number) = digits.split_at(Self::DOMAIN);
        let domain = u64::from_str_radix(domain, 16).ok()?;
        Some(Self { domain, number: u128::from_str_radix(number, 16).ok()? })
    }

    /// The part that tells receipts apart.
    pub(super) fn number(&self) -> u128 {
        self.number
    }

    /// Whether a receipt of this name is one of `domain`'s.
    pub fn is_of(&self, domain: &Domain<'_>) -> bool {
        self.domain == domain.number()
    }
}

impl fmt::Display for ReceiptId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{:016x}{:032x}", Self::PREFIX, self.domain, self.number)
    }
}

impl Serialize for ReceiptId {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl fmt::Debug for ReceiptId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ReceiptId({self})")
    }
}

/// What is known when a claim is made. No payload, and a raw key in scope `workspace` alone.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Opening {
    /// The effective key; scope `workspace` only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<Box<str>>,
    /// The slot; 64 hex digits in text, made where it is read.
    #[serde(with = "text")]
    pub key_hash: SlotKey,
    /// What was asked; the same.
    #[serde(with = "text")]
    pub request_hash: RequestHash,
    /// The workspace, in scope `workspace`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workspace: Option<Shared>,
    /// The caller's human.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub human: Option<Shared>,
    /// The caller's agent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent: Option<Shared>,
    /// The caller's team.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub team: Option<Shared>,
    /// The governed session.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session: Option<Box<str>>,
    /// The server's namespace.
    #[serde(default, skip_serializing_if = "str::is_empty")]
    pub namespace: Shared,
    /// The server's name.
    pub server: Shared,
    /// The tool as it was called.
    pub tool: Box<str>,
    /// The route record: the non-secret facts of the target, as JSON text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub route: Option<Shared>,
    /// How the key reaches the vendor; `None` for a tool without an effect spec.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub binding: Option<Shared>,
    /// When the claim was asked for, which reserves the first attempt.
    pub opened_at: Timestamp,
}

/// One outbound attempt.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Attempt {
    /// From 1; a redispatch goes on counting.
    pub number: u32,
    /// When it was reserved, before its first byte was sent.
    pub reserved_at: Timestamp,
    /// How it ended; `None` while it runs, and for good where the gateway died under it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub end: Option<AttemptEnd>,
}

/// How an attempt ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct AttemptEnd {
    /// What came of it.
    pub result: AttemptResult,
    /// From the reservation, in milliseconds.
    pub duration_ms: u64,
}

impl AttemptEnd {
    /// An end after this long.
    pub fn after(result: AttemptResult, duration: Duration) -> Self {
        let duration_ms = u64::try_from(duration.as_millis()).unwrap_or(u64::MAX);
        Self { result, duration_ms }
    }
}

/// What came of an attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AttemptResult {
    /// A whole reply of this HTTP status.
    Replied(u16),
    /// Proven that nothing was sent.
    Unsent,
    /// No reply, or no further part of it, in time.
    Timeout,
    /// The exchange broke off.
    Disconnected,
}

/// What a claim came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ReceiptOutcome {
    /// The call runs, or its owner died: then its record lapses to unknown.
    InFlight,
    /// The reply is kept.
    Completed,
    /// The tool ran and answered; the reply is not kept.
    NotReplayable,
    /// Nobody can say whether the tool ran.
    Unknown,
    /// Nothing was executed.
    Released,
}

impl ReceiptOutcome {
    /// Every outcome.
    pub const ALL: [Self; 5] =
        [Self::InFlight, Self::Completed, Self::NotReplayable, Self::Unknown, Self::Released];

    /// The word of a receipt.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::InFlight => "in_flight",
            Self::Completed => "completed",
            Self::NotReplayable => "not_replayable",
            Self::Unknown => "unknown",
            Self::Released => "released",
        }
    }
}

/// Attempts that a receipt lists; it counts those before them.
pub const MAX_LISTED_ATTEMPTS: usize = 100;

/// Attempts, in order; nearly always there is one.
pub type Attempts = SmallVec<[Attempt; 1]>;

/// A receipt.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Receipt {
    /// Its name.
    pub id: ReceiptId,
    /// What was known when the claim was made.
    #[serde(flatten)]
    pub opening: Opening,
    /// How many attempts were reserved, and not taken back before a connection was tried.
    pub attempt_count: u32,
    /// The newest [`MAX_LISTED_ATTEMPTS`] of them, in order. The number of one that was taken back
    /// goes to the next.
    #[serde(serialize_with = "text::list")]
    pub attempts: Attempts,
    /// What the claim came to.
    pub outcome: ReceiptOutcome,
    /// When it came to that.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub settled_at: Option<Timestamp>,
}

/// A page of receipts.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ReceiptPage {
    /// Newest first.
    pub receipts: Vec<Receipt>,
    /// Where the next page begins, if there may be one.
    pub next: Option<ReceiptId>,
}

/// How long receipts are kept, and how many (`[receipts]`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReceiptSettings {
    /// The most, in memory of the process, in Redis of each domain; 0 keeps none. The oldest goes
    /// first.
    pub entries: u32,
    /// From the claim on.
    pub retention: Duration,
}

impl Default for ReceiptSettings {
    /// 4096 receipts, a day.
    fn default() -> Self {
        Self { entries: 4096, retention: Duration::from_secs(24 * 60 * 60) }
    }
}
