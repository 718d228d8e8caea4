//! What random begins declare of where their calls go.

use onceward::claim::{Dispatch, Pin};

use crate::naive::to;

/// Where a call may go, and when that matters: begins draw one of these.
pub const DISPATCHES: [Dispatch; 10] = [
    Dispatch::UNDECLARED,
    to(0, Pin::Free, false),
    to(0, Pin::Free, true),
    to(0, Pin::Free, true),
    to(0, Pin::Open, true),
    to(0, Pin::Always, true),
    to(1, Pin::Free, true),
    to(1, Pin::Free, false),
    to(1, Pin::Open, false),
    to(1, Pin::Always, false),
];
