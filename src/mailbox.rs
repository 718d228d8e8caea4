//! Actors that their senders run: a mailbox in which the actor itself sits until somebody sends.
//!
//! An actor owns its state and handles one message at a time, in the order of their arrival. It has
//! no thread: whoever sends to an idle actor lends it the own one until the mailbox is empty, and
//! whoever sends to a busy actor leaves the message to the sender that runs it. A handler must not
//! block. So a message costs two short locks, where a thread of the actor's own would cost a wake-up
//! there and one back, ten to a hundred times what the memory store's handlers take (STORE section
//! 3 says how much; docs/BENCHMARKS.md, what it comes to).

use std::collections::VecDeque;
use std::mem;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::PoisonError;

#[cfg(loom)]
use loom::sync::{Mutex, MutexGuard};
#[cfg(not(loom))]
use std::sync::{Mutex, MutexGuard};

/// Messages that one sender handles before it leaves the rest to others, its own among them. Under
/// loom one, so that few messages show what happens then.
pub const BATCH: usize = if cfg!(loom) { 1 } else { 16 };

/// What lives in a mailbox.
pub trait Actor {
    /// What it is sent.
    type Message;

    /// Handles one message. A panic in here is the actor's end, not the sender's.
    fn handle(&mut self, message: Self::Message) -> Next;
}

/// Whether an actor goes on after a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Next {
    /// It waits for the next one.
    Continue,
    /// It ends; what is in its mailbox is dropped.
    End,
}

/// What a sender leaves behind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use = "somebody must resume an idle actor that has mail"]
pub enum Left {
    /// Nothing, or another sender is at it.
    Nothing,
    /// Messages that wait for nobody: [`Mailbox::resume`] must be called.
    Mail,
}

/// The mailbox of one actor, with the actor in it. How many messages may wait is the senders' to
/// bound.
pub struct Mailbox<A: Actor> {
    inbox: Mutex<Inbox<A>>,
}

struct Inbox<A: Actor> {
    seat: Seat<A>,
    waiting: VecDeque<A::Message>,
}

/// Where the actor is.
enum Seat<A> {
    /// Here. If mail waits all the same, somebody is on the way to resume it.
    Idle(Box<A>),
    /// A sender runs it.
    Busy,
    /// It has ended or failed, and takes no message any more.
    Gone,
}

impl<A: Actor> Mailbox<A> {
    /// A mailbox with its actor.
    pub fn new(actor: A) -> Self {
        let seat = Seat::Idle(Box::new(actor));
        Self { inbox: Mutex::new(Inbox { seat, waiting: VecDeque::new() }) }
    }

    /// Sends a message, and runs the actor if nobody else does. To an actor that is gone it is
    /// dropped.
    pub fn send(&self, message: A::Message) -> Left {
        let mut inbox = self.lock();
        match mem::replace(&mut inbox.seat, Seat::Busy) {
            Seat::Idle(actor) => {
                inbox.waiting.push_back(message);
                self.run(actor, inbox)
            }
            Seat::Busy => {
                inbox.waiting.push_back(message);
                Left::Nothing
            }
            Seat::Gone => {
                inbox.seat = Seat::Gone;
                // What a message does when it is dropped may come back here.
                drop(inbox);
                drop(message);
                Left::Nothing
            }
        }
    }

    /// Handles what waits, if nobody is at it.
    pub fn resume(&self) -> Left {
        let mut inbox = self.lock();
        match mem::replace(&mut inbox.seat, Seat::Busy) {
            Seat::Idle(actor) => self.run(actor, inbox),
            elsewhere => {
                inbox.seat = elsewhere;
                Left::Nothing
            }
        }
    }

    /// Runs the actor until there is no mail, or enough was handled.
    fn run<'m>(&'m self, mut actor: Box<A>, mut inbox: MutexGuard<'m, Inbox<A>>) -> Left {
        for _ in 0..BATCH {
            let Some(message) = inbox.waiting.pop_front() else {
                inbox.seat = Seat::Idle(actor);
                return Left::Nothing;
            };
            drop(inbox);
            // A handler that panics leaves an actor that nobody looks at again.
            match catch_unwind(AssertUnwindSafe(|| actor.handle(message))) {
                Ok(Next::Continue) => inbox = self.lock(),
                Ok(Next::End) | Err(_) => {
                    self.end(actor);
                    return Left::Nothing;
                }
            }
        }
        inbox.seat = Seat::Idle(actor);
        if inbox.waiting.is_empty() { Left::Nothing } else { Left::Mail }
    }

    /// First nobody can send any more, then the actor goes, and with it whatever it tells others in
    /// going; then those hear of it whose messages it did not take.
    fn end(&self, actor: Box<A>) {
        let mut inbox = self.lock();
        inbox.seat = Seat::Gone;
        let unread = mem::take(&mut inbox.waiting);
        drop(inbox);
        drop(actor);
        drop(unread);
    }

    fn lock(&self) -> MutexGuard<'_, Inbox<A>> {
        // Nothing that can panic half-way runs under the lock.
        self.inbox.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use std::sync::Arc;
    use std::sync::mpsc::{Sender, channel};

    /// Says what it handles; `send` sends to itself, as often as the message says.
    struct Echo {
        said: Sender<u32>,
        own: Option<Arc<Mailbox<Echo>>>,
    }

    enum Message {
        Say(u32),
        Again(u32),
        Meet(Arc<Mailbox<Echo>>),
        Panic,
        End,
    }

    impl Actor for Echo {
        type Message = Message;

        fn handle(&mut self, message: Message) -> Next {
            match message {
                Message::Say(number) => self.said.send(number).expect("the test listens"),
                Message::Again(number) => {
                    self.said.send(number).expect("the test listens");
                    if let (Some(own), Some(less)) = (&self.own, number.checked_sub(1)) {
                        assert_eq!(own.send(Message::Again(less)), Left::Nothing, "it is busy");
                    }
                }
                Message::Meet(own) => self.own = Some(own),
                Message::Panic => panic!("a test asked for it"),
                Message::End => {
                    // Its mailbox would keep itself alive.
                    self.own = None;
                    return Next::End;
                }
            }
            Next::Continue
        }
    }

    impl Drop for Echo {
        fn drop(&mut self) {
            let _ = self.said.send(u32::MAX);
        }
    }

    fn echo() -> (Arc<Mailbox<Echo>>, std::sync::mpsc::Receiver<u32>) {
        let (said, heard) = channel();
        (Arc::new(Mailbox::new(Echo { said, own: None })), heard)
    }

    #[test]
    fn a_message_is_handled_by_its_sender() {
        let (mailbox, heard) = echo();
        assert_eq!(mailbox.send(Message::Say(7)), Left::Nothing);
        assert_eq!(heard.try_recv(), Ok(7));
        assert_eq!(mailbox.resume(), Left::Nothing);
    }

    #[test]
    fn a_sender_handles_no_more_than_a_batch_and_says_so() {
        let (mailbox, heard) = echo();
        assert_eq!(mailbox.send(Message::Meet(Arc::clone(&mailbox))), Left::Nothing);
        let more = BATCH as u32;
        assert_eq!(mailbox.send(Message::Again(more)), Left::Mail);
        assert_eq!(heard.try_iter().collect::<Vec<_>>(), (1..=more).rev().collect::<Vec<_>>());
        assert_eq!(mailbox.resume(), Left::Nothing);
        assert_eq!(heard.try_recv(), Ok(0));
        assert_eq!(mailbox.send(Message::End), Left::Nothing);
    }

    #[test]
    fn an_actor_that_panics_is_gone_and_its_sender_lives() {
        let (mailbox, heard) = echo();
        assert_eq!(mailbox.send(Message::Panic), Left::Nothing);
        assert_eq!(heard.try_recv(), Ok(u32::MAX), "dropped");
        assert_eq!(mailbox.send(Message::Say(1)), Left::Nothing);
        assert_eq!(mailbox.resume(), Left::Nothing);
        assert!(heard.try_recv().is_err());
    }

    #[test]
    fn an_actor_that_ends_leaves_its_mail_unread() {
        let (mailbox, heard) = echo();
        assert_eq!(mailbox.send(Message::End), Left::Nothing);
        assert_eq!(heard.try_recv(), Ok(u32::MAX));
        assert_eq!(mailbox.send(Message::Say(1)), Left::Nothing);
        assert!(heard.try_recv().is_err());
    }
}
