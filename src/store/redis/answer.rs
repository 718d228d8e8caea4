//! What a script answers: a word, three times, the domain's birth, and what belongs to the word.

use redis::Value;

use super::keys::Victim;
use crate::claim::{CapacityLimit, Reply};
use crate::store::ReceiptId;
use bytes::Bytes;

/// An answer, taken apart.
#[derive(Debug)]
pub(super) struct Answer {
    pub(super) word: Word,
    /// The server's clock in microseconds.
    pub(super) clock: i64,
    /// The domain's stamp before the script.
    pub(super) before: i64,
    /// And after it.
    pub(super) after: i64,
    /// When the domain was made: the first ticket in it. Empty before the first claim.
    pub(super) born: Vec<u8>,
}

/// What it comes to.
#[derive(Debug)]
pub(super) enum Word {
    /// The claim is the caller's, with this many attempts reserved under its record.
    First(u32),
    Replay(Reply),
    Conflict,
    OtherRoute,
    InFlight,
    Unknown,
    NotReplayable,
    Capacity(CapacityLimit),
    /// Room has to be made: call again with the keys of these declared, oldest first.
    Evict(Vec<Victim>),
    /// The not-after of a begin has passed.
    Late,
    /// The domain is behind what the caller has seen of it.
    Lost,
    /// The domain's records were counted under these other limits.
    Limits(String),
    Done,
    Stale,
    /// There is no record of this ticket.
    Gone,
    Occupancy(Counts),
    Receipts(Vec<Kept>),
}

/// A receipt as a domain keeps it.
#[derive(Debug)]
pub(super) struct Kept {
    pub(super) id: ReceiptId,
    /// When the domain opened it.
    pub(super) stamp: i64,
    pub(super) lines: Vec<u8>,
}

/// What a domain holds.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Counts {
    pub(super) in_flight: u32,
    pub(super) completed: u32,
    pub(super) tombstones: u32,
    pub(super) evictions: u64,
    /// The limits that it is counted under; empty before the first claim.
    pub(super) limits: String,
}

impl Answer {
    /// `None` when it is not what a script of this build answers.
    pub(super) fn read(value: Value, reply_cap: usize) -> Option<Self> {
        let Value::Array(parts) = value else { return None };
        let mut parts = parts.into_iter();
        let word = bytes(parts.next()?)?;
        let (clock, before) = (int(&parts.next()?)?, int(&parts.next()?)?);
        let (after, born) = (int(&parts.next()?)?, bytes(parts.next()?)?);
        let word = Word::read(&word, parts, reply_cap)?;
        Some(Self { word, clock, before, after, born })
    }
}

impl Word {
    fn read(word: &[u8], mut rest: impl Iterator<Item = Value>, reply_cap: usize) -> Option<Self> {
        Some(match word {
            b"first" => Self::First(u32::try_from(int(&rest.next()?)?).ok()?),
            b"replay" => Self::Replay(reply(rest, reply_cap)?),
            b"conflict" => Self::Conflict,
            b"other_route" => Self::OtherRoute,
            b"in_flight" => Self::InFlight,
            b"unknown" => Self::Unknown,
            b"not_replayable" => Self::NotReplayable,
            b"capacity" => Self::Capacity(limit(&bytes(rest.next()?)?)?),
            b"evict" => Self::Evict(
                rest.map(|member| Victim::from_member(&bytes(member)?)).collect::<Option<_>>()?,
            ),
            b"late" => Self::Late,
            b"lost" => Self::Lost,
            b"limits" => Self::Limits(text(rest.next()?)?),
            b"done" => Self::Done,
            b"stale" => Self::Stale,
            b"gone" => Self::Gone,
            b"receipts" => Self::Receipts(receipts(rest)?),
            b"occupancy" => Self::Occupancy(Counts {
                in_flight: u32::try_from(int(&rest.next()?)?).ok()?,
                completed: u32::try_from(int(&rest.next()?)?).ok()?,
                tombstones: u32::try_from(int(&rest.next()?)?).ok()?,
                evictions: u64::try_from(int(&rest.next()?)?).ok()?,
                limits: text(rest.next()?)?,
            }),
            _ => return None,
        })
    }
}

/// A standing reply larger than today's cap is replayed all the same (CONTRACT section 11).
fn reply(mut rest: impl Iterator<Item = Value>, cap: usize) -> Option<Reply> {
    let status = std::str::from_utf8(&bytes(rest.next()?)?).ok()?.parse().ok()?;
    let content_type = match bytes(rest.next()?)? {
        absent if absent.is_empty() => None,
        marked => Some(Bytes::from(marked).slice(1..)),
    };
    let body = Bytes::from(bytes(rest.next()?)?);
    let cap = cap.max(body.len());
    let reply = Reply::new(status, content_type, body, cap).ok()?;
    Some(match bytes(rest.next()?)? {
        absent if absent.is_empty() => reply,
        route => reply.with_route(Bytes::from(route)),
    })
}

fn receipts(mut rest: impl Iterator<Item = Value>) -> Option<Vec<Kept>> {
    let mut all = Vec::new();
    while let Some(id) = rest.next() {
        let id = ReceiptId::parse(&text(id)?)?;
        let (stamp, lines) = (int(&rest.next()?)?, bytes(rest.next()?)?);
        all.push(Kept { id, stamp, lines });
    }
    Some(all)
}

fn limit(name: &[u8]) -> Option<CapacityLimit> {
    Some(match name {
        b"ScopeInFlight" => CapacityLimit::ScopeInFlight,
        b"PrincipalInFlight" => CapacityLimit::PrincipalInFlight,
        b"StoreInFlight" => CapacityLimit::StoreInFlight,
        b"ScopeTombstones" => CapacityLimit::ScopeTombstones,
        b"ScopeEntries" => CapacityLimit::ScopeEntries,
        b"PrincipalEntries" => CapacityLimit::PrincipalEntries,
        b"StoreEntries" => CapacityLimit::StoreEntries,
        _ => return None,
    })
}

fn bytes(value: Value) -> Option<Vec<u8>> {
    match value {
        Value::BulkString(bytes) => Some(bytes),
        _ => None,
    }
}

fn text(value: Value) -> Option<String> {
    String::from_utf8(bytes(value)?).ok()
}

fn int(value: &Value) -> Option<i64> {
    match value {
        Value::Int(int) => Some(*int),
        _ => None,
    }
}
