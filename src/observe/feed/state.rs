//! What the workers and the thread of a feed share.

use std::fmt::Display;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use tokio_util::sync::CancellationToken;

use crate::observe::throttle::Throttle;

/// How often dropped items, and a failing sink, are said in the log.
const REPORT_PERIOD: Duration = Duration::from_secs(10);

/// Counts and flags.
#[derive(Debug)]
pub(in crate::observe) struct State {
    name: &'static str,
    started: Instant,
    dropped: AtomicU64,
    closing: AtomicBool,
    reopen: AtomicBool,
    given_up: CancellationToken,
    refusals: Throttle,
    losses: Throttle,
}

impl State {
    pub(in crate::observe) fn new(name: &'static str) -> Self {
        Self {
            name,
            started: Instant::now(),
            dropped: AtomicU64::new(0),
            closing: AtomicBool::new(false),
            reopen: AtomicBool::new(false),
            given_up: CancellationToken::new(),
            refusals: Throttle::new(REPORT_PERIOD),
            losses: Throttle::new(REPORT_PERIOD),
        }
    }

    /// Items that did not reach the sink.
    pub(in crate::observe) fn dropped(&self) -> u64 {
        self.dropped.load(Ordering::Relaxed)
    }

    /// Counts items that the sink did not take.
    pub(in crate::observe) fn lost(&self, items: u64, why: &dyn Display) {
        let dropped = self.dropped.fetch_add(items, Ordering::Relaxed) + items;
        if self.losses.allow(self.started.elapsed()) {
            tracing::error!(sink = self.name, dropped, "the sink fails and items are lost: {why}");
        }
    }

    /// Says that the sink fails, while nothing is lost yet.
    pub(in crate::observe) fn troubled(&self, why: &dyn Display) {
        if self.losses.allow(self.started.elapsed()) {
            tracing::warn!(sink = self.name, "the sink fails and is tried again: {why}");
        }
    }

    /// Ends when the time to close is over: stop trying, count the rest as lost.
    pub(in crate::observe) fn given_up(&self) -> &CancellationToken {
        &self.given_up
    }

    pub(super) fn refused(&self, why: &'static str) {
        let dropped = self.dropped.fetch_add(1, Ordering::Relaxed) + 1;
        if self.refusals.allow(self.started.elapsed()) {
            tracing::warn!(sink = self.name, dropped, "items for the sink are dropped: {why}");
        }
    }

    pub(super) fn close(&self) {
        self.closing.store(true, Ordering::SeqCst);
    }

    pub(super) fn is_closing(&self) -> bool {
        self.closing.load(Ordering::SeqCst)
    }

    pub(super) fn give_up(&self) {
        self.given_up.cancel();
    }

    pub(super) fn ask_to_reopen(&self) {
        self.reopen.store(true, Ordering::SeqCst);
    }

    pub(super) fn is_to_reopen(&self) -> bool {
        self.reopen.load(Ordering::SeqCst)
    }

    pub(super) fn take_reopen(&self) -> bool {
        self.reopen.swap(false, Ordering::SeqCst)
    }
}
