//! The mailbox: every message is handled once, in its sender's order, by one thread at a time.
//!
//! Bounds: two senders of two messages each, and three senders of one; with a helper that resumes.
//! Preemptions are not bounded.

use loom::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use onceward::mailbox::{Actor, Left, Mailbox, Next};
use std::sync::Arc;

use crate::{all_three, together};

/// Remembers what it handled, and that nobody else is in it.
struct Log {
    seen: Vec<u32>,
    inside: Arc<AtomicBool>,
    handled: Arc<AtomicUsize>,
}

/// How many messages there were, the last of them included, when the actor ended.
const END: u32 = u32::MAX;

impl Actor for Log {
    type Message = u32;

    fn handle(&mut self, message: u32) -> Next {
        assert!(!self.inside.swap(true, Ordering::Relaxed), "two threads in one actor");
        if let Some(before) = self.seen.iter().rev().find(|seen| *seen / 10 == message / 10) {
            assert!(*before < message, "{message} came after {before}");
        }
        self.seen.push(message);
        self.handled.fetch_add(1, Ordering::Relaxed);
        self.inside.store(false, Ordering::Relaxed);
        if message == END { Next::End } else { Next::Continue }
    }
}

fn log() -> (Arc<Mailbox<Log>>, Arc<AtomicUsize>) {
    let handled = Arc::new(AtomicUsize::new(0));
    let inside = Arc::new(AtomicBool::new(false));
    let actor = Log { seen: Vec::new(), inside, handled: Arc::clone(&handled) };
    (Arc::new(Mailbox::new(actor)), handled)
}

/// Sends, and resumes what it left.
fn send(mailbox: &Mailbox<Log>, message: u32) {
    let mut left = mailbox.send(message);
    while left == Left::Mail {
        left = mailbox.resume();
    }
}

#[test]
fn no_message_is_lost_and_each_senders_come_in_order() {
    loom::model(|| {
        let (mailbox, handled) = log();
        let sender = |own: u32| {
            let mailbox = Arc::clone(&mailbox);
            move || {
                send(&mailbox, own);
                send(&mailbox, own + 1);
            }
        };
        together(sender(10), sender(20));
        assert_eq!(handled.load(Ordering::Relaxed), 4);
        // Nothing waits for anybody: the next sender handles its own at once.
        send(&mailbox, 30);
        assert_eq!(handled.load(Ordering::Relaxed), 5);
    });
}

#[test]
fn a_resume_between_sends_takes_nothing_twice() {
    loom::model(|| {
        let (mailbox, handled) = log();
        let send_one = |own: u32| {
            let mailbox = Arc::clone(&mailbox);
            Box::new(move || send(&mailbox, own)) as Box<dyn FnOnce()>
        };
        let helper = Arc::clone(&mailbox);
        let resume = Box::new(move || while helper.resume() == Left::Mail {}) as Box<dyn FnOnce()>;
        all_three([send_one(10), send_one(20), resume]);
        assert_eq!(handled.load(Ordering::Relaxed), 2);
    });
}

#[test]
fn an_end_among_sends_leaves_nobody_in_a_seat_that_is_gone() {
    loom::model(|| {
        let (mailbox, handled) = log();
        let send_one = |own: u32| {
            let mailbox = Arc::clone(&mailbox);
            move || send(&mailbox, own)
        };
        together(send_one(10), send_one(END));
        let before = handled.load(Ordering::Relaxed);
        assert!((1..=2).contains(&before), "{before}");
        send(&mailbox, 20);
        assert_eq!(handled.load(Ordering::Relaxed), before, "handled by an actor that is gone");
    });
}
