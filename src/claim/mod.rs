//! The pure core: what a claim is and what may happen to it.
//!
//! Nothing here knows a clock, I/O, a lock, async or an actor: time comes in as [`Millis`], commands
//! come in as values, and decisions go out as values. The actors of the memory store, the model
//! checker, the property tests and the benchmarks drive the same machines.

pub mod canonical;
pub mod coordinator;
pub mod counts;
mod digest_hash;
pub mod fingerprint;
pub mod ids;
pub mod invariant;
pub mod json;
pub mod key;
pub mod limits;
pub mod pointer;
pub mod protocol;
pub mod record;
pub mod shard;
pub mod shared;

pub use canonical::{canonical, write_canonical};
pub use digest_hash::DigestHash;
pub use fingerprint::{
    Call, Fingerprint, Round, Subject, dispatch_hash, principal_id, request_hash, scope_id,
    scoped_key, vendor_key, workspace_principal_id, workspace_scope_id, workspace_scoped_key,
};
pub use ids::{
    CompletionSeq, DispatchHash, Fence, Millis, PrincipalId, RequestHash, ScopeId, SlotKey,
};
pub use json::{Document, JsonError, Kind, MAX_DEPTH, Value};
pub use key::{Key, KeyError, KeyFormat};
pub use limits::{Limits, LimitsError};
pub use pointer::{Pointer, PointerError};
pub use protocol::{Begin, Dispatch, Pin, Settled, Settlement};
pub use record::{CapacityLimit, Claim, Completion, Reply, ReplyTooLarge, TombstoneReason};
