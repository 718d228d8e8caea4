//! What a slot can hold: in flight → completed (a reply) or tombstone (a reason).

use std::fmt;
use std::sync::Arc;

use bytes::Bytes;

use super::protocol::{Outcome, Pin};
use super::{Begin, DispatchHash, Millis, RequestHash, SlotKey};

/// What a record is the record of: what it answers, and to whom.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Claim {
    /// The claimed slot.
    pub slot: SlotKey,
    /// What was asked; another hash on the slot is a conflict.
    pub hash: RequestHash,
    /// Where the call went, for a tool that declares it. Apart from the claim: few declare it, and a
    /// million claims that do not take one word for it each.
    pub dispatch: Option<Box<DispatchHash>>,
}

impl Claim {
    /// The claim of a begin.
    pub fn of(begin: &Begin) -> Self {
        let dispatch = begin.dispatch.hash.map(Box::new);
        Self { slot: begin.slot, hash: begin.hash, dispatch }
    }

    /// How a record of this claim refuses a begin on its slot, whatever it holds. A begin that is
    /// not refused is answered by the record's state.
    pub fn refuses(&self, begin: &Begin, completed: bool) -> Option<Outcome> {
        let pinned = match begin.dispatch.pin {
            Pin::Free => false,
            Pin::Open => !completed,
            Pin::Always => true,
        };
        if self.hash != begin.hash {
            Some(Outcome::Conflict)
        } else if pinned && !self.goes_where(begin) {
            Some(Outcome::OtherRoute)
        } else {
            None
        }
    }

    /// Whether a begin would go where this claim went.
    pub fn goes_where(&self, begin: &Begin) -> bool {
        self.dispatch.as_deref() == begin.dispatch.hash.as_ref()
    }
}

/// A completed claim, as its shard and the read index share it.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Completion {
    /// What was completed.
    pub claim: Claim,
    /// From when on the reply is not replayed.
    pub expires: Millis,
    /// The reply.
    pub reply: Arc<Reply>,
}

/// What a completed record takes beside its place and its reply, in bytes, with the two counts of
/// its `Arc`: docs and benchmarks count with it.
const _: () = assert!(size_of::<Completion>() == 88);

impl Completion {
    /// What it answers to a begin on its slot, while it stands.
    pub fn answer(&self, begin: &Begin) -> Outcome {
        let refused = self.claim.refuses(begin, true);
        refused.unwrap_or_else(|| Outcome::Replay(Arc::clone(&self.reply)))
    }
}

/// The reply that a completed record keeps and every replay repeats: status, `Content-Type` (or
/// its absence) and body, byte for byte (CONTRACT section 7).
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Reply {
    status: u16,
    about: About,
    body: Bytes,
}

/// What a reply takes beside its body, in bytes: a million of them stand in a store.
const _: () = assert!(size_of::<Reply>() <= 56);

impl fmt::Debug for Reply {
    /// Without the payload, which no log may hold.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reply")
            .field("status", &self.status)
            .field("body_bytes", &self.body.len())
            .finish_non_exhaustive()
    }
}

/// A reply over the cap is never stored; its record becomes a `NotReplayable` tombstone.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a body of {size} bytes exceeds `reply_bytes` ({cap})")]
pub struct ReplyTooLarge {
    /// The size of the body in bytes.
    pub size: usize,
    /// The cap in bytes.
    pub cap: usize,
}

impl Reply {
    /// A reply whose body fits `cap` bytes.
    ///
    /// # Errors
    ///
    /// [`ReplyTooLarge`] when the body is longer.
    pub fn new(
        status: u16,
        content_type: Option<Bytes>,
        body: Bytes,
        cap: usize,
    ) -> Result<Self, ReplyTooLarge> {
        if body.len() > cap {
            return Err(ReplyTooLarge { size: body.len(), cap });
        }
        Ok(Self { status, about: About::new(content_type, None), body })
    }

    /// The same reply with the route record of its call, JSON text that replays tell (EFFECTS
    /// section 4, "Capabilities").
    #[must_use]
    pub fn with_route(self, route: Bytes) -> Self {
        let content_type = self.content_type().cloned();
        Self { about: About::new(content_type, Some(route)), ..self }
    }

    /// The HTTP status.
    pub fn status(&self) -> u16 {
        self.status
    }

    /// The `Content-Type` header value as received, or `None` where there was none.
    pub fn content_type(&self) -> Option<&Bytes> {
        self.about.content_type()
    }

    /// The route record of its call, where it has one.
    pub fn route(&self) -> Option<&Bytes> {
        self.about.route()
    }

    /// The body as received.
    pub fn body(&self) -> &Bytes {
        &self.body
    }
}

/// What upstreams of MCP nearly always send. Kept once, not with every reply.
static COMMON_TYPES: [Bytes; 4] = [
    Bytes::from_static(b"application/json"),
    Bytes::from_static(b"application/json; charset=utf-8"),
    Bytes::from_static(b"application/json;charset=utf-8"),
    Bytes::from_static(b"text/event-stream"),
];

/// `Content-Type` and route in few bytes. Each pair has one form, so that equal ones are equal.
#[derive(Clone, PartialEq, Eq, Hash)]
enum About {
    Nothing,
    /// A place in [`COMMON_TYPES`], and no route.
    Common(u8),
    Other(Box<Rare>),
}

#[derive(Clone, PartialEq, Eq, Hash)]
struct Rare {
    content_type: Option<Bytes>,
    route: Option<Bytes>,
}

impl About {
    fn new(content_type: Option<Bytes>, route: Option<Bytes>) -> Self {
        let common = || {
            let value = content_type.as_ref()?;
            let (place, _) = (0..).zip(&COMMON_TYPES).find(|(_, common)| *common == value)?;
            Some(Self::Common(place))
        };
        match (&content_type, &route) {
            (None, None) => Self::Nothing,
            (Some(_), None) => common()
                .unwrap_or_else(|| Self::Other(Box::new(Rare { content_type, route: None }))),
            (_, Some(_)) => Self::Other(Box::new(Rare { content_type, route })),
        }
    }

    fn content_type(&self) -> Option<&Bytes> {
        match self {
            Self::Nothing => None,
            Self::Common(place) => COMMON_TYPES.get(usize::from(*place)),
            Self::Other(rare) => rare.content_type.as_ref(),
        }
    }

    fn route(&self) -> Option<&Bytes> {
        match self {
            Self::Other(rare) => rare.route.as_ref(),
            Self::Nothing | Self::Common(_) => None,
        }
    }
}

/// Why a record cannot be replayed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum TombstoneReason {
    /// Nobody can say whether the tool ran.
    Unknown,
    /// The tool ran and answered, but the reply was not kept.
    NotReplayable,
}

/// Which cap refused a begin.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum CapacityLimit {
    /// Records in flight of the scope.
    ScopeInFlight,
    /// Records in flight of the principal.
    PrincipalInFlight,
    /// Records in flight of the store.
    StoreInFlight,
    /// Tombstones of the scope, reserved ones included.
    ScopeTombstones,
    /// Records of the scope, none of them evictable.
    ScopeEntries,
    /// Records of the principal, none of them evictable.
    PrincipalEntries,
    /// Records of the store, none of them evictable.
    StoreEntries,
}

impl CapacityLimit {
    /// Whether it is a cap of what is in flight, which alone can refuse a redispatch.
    pub const fn is_of_flight(self) -> bool {
        matches!(self, Self::ScopeInFlight | Self::PrincipalInFlight | Self::StoreInFlight)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reply_holds_what_it_was_made_of_up_to_the_cap() {
        let body = Bytes::from_static(b"four");
        let reply = Reply::new(202, None, body.clone(), 4).expect("it fits");
        assert_eq!((reply.status(), reply.body()), (202, &body));
        assert_eq!(Reply::new(202, None, body, 3), Err(ReplyTooLarge { size: 4, cap: 3 }));
    }

    #[test]
    fn a_content_type_comes_back_as_it_was_received() {
        let types = ["application/json", "Application/JSON", "text/event-stream", "text/plain", ""];
        for value in types {
            let given = Some(Bytes::copy_from_slice(value.as_bytes()));
            let reply = Reply::new(200, given.clone(), Bytes::new(), 0).expect("no body");
            assert_eq!(reply.content_type(), given.as_ref());
        }
        let without = Reply::new(200, None, Bytes::new(), 0).expect("no body");
        assert_eq!(without.content_type(), None, "an absent type is not an empty one");
        let route = Bytes::from_static(b"{}");
        for value in [None, Some("application/json"), Some("text/plain")] {
            let given = value.map(|value| Bytes::copy_from_slice(value.as_bytes()));
            let reply = Reply::new(200, given.clone(), Bytes::new(), 0).expect("no body");
            assert_eq!(reply.route(), None);
            let routed = reply.with_route(route.clone());
            assert_eq!((routed.content_type(), routed.route()), (given.as_ref(), Some(&route)));
        }
    }
}
