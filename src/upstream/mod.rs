//! What happens at the upstream's side of the gateway: sending one request once, and judging what
//! came back.
//!
//! Nothing here retries, follows a redirect or knows a store. [`Client`] does the I/O and says of
//! each failure whether anything may have left ([`Failure`]); the rest is pure: [`headers`] filters,
//! [`outcome`] is CONTRACT section 4's second table, [`Reading`] applies it to a reply as its chunks
//! pass, [`replace_id`] renumbers a stored reply, and [`Circuit`] takes the time as an argument.

mod answer;
mod body;
pub mod circuit;
mod client;
mod event_stream;
mod failure;
pub mod headers;
pub mod media_type;
pub mod outcome;
mod pool;
mod reading;
mod renumber;
mod statuses;
mod trust;

pub use answer::RequestId;
pub use body::Body;
pub use circuit::{Circuit, CircuitSettings, Permit, Refusal};
pub use client::{Client, Response, Timeouts};
pub use failure::{AmbiguousCause, Failure, UnsentCause};
pub use outcome::{Head, NotKept, Outcome, Plan, Rules, UnknownReason};
pub use reading::{Finished, Flow, Reading};
pub use renumber::replace_id;
pub use statuses::{STATUSES, StatusSet, Statuses};
pub use trust::{Trust, TrustError};
