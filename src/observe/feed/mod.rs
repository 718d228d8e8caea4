//! From the workers to a sink, without making them wait: a bounded queue, and one thread that takes
//! what it holds in batches.
//!
//! A full queue drops what comes, counts it and says so, because a sink that stands still must not
//! stop traffic. The audit trail and the traces are each fed in this way.

mod state;

use std::sync::mpsc::{self, Receiver, RecvTimeoutError, SyncSender, TryRecvError, TrySendError};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};
use std::{fmt, io};

pub(super) use state::State;

/// How long a thread that was told to give up may take to end: it counts what it loses.
const GIVE_UP_WAIT: Duration = Duration::from_secs(1);

/// How often a queue is emptied while a batch is gathered. A thread that waits in the queue is woken
/// by a system call of the worker that queues an item, which costs the worker more than the item
/// itself; one that sleeps is not.
pub(super) const TICK: Duration = Duration::from_millis(5);

/// What one feed is like.
pub(super) struct Settings {
    /// The thread's name, and that of the feed in the log.
    pub(super) name: &'static str,
    /// Items that may wait.
    pub(super) queue: usize,
    /// How long a batch is gathered after its first item, in steps of [`TICK`]; one step at least.
    pub(super) linger: Duration,
    /// The weight at which a batch is full; it holds one item more at the most.
    pub(super) batch: usize,
}

/// What takes batches, in the feed's own thread, where it may block.
pub(super) trait Consumer<T>: Send + 'static {
    /// What an item adds to a batch's weight.
    fn weight(item: &T) -> usize;

    /// Takes every item of a batch that is not empty, in order, and counts what it loses.
    fn consume(&mut self, batch: &mut Vec<T>, state: &State);

    /// Opens its sink anew, where it has one that can be.
    fn reopen(&mut self) {}
}

/// Something was still queued when the time to close was over: it is lost, and counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Incomplete;

enum Message<T> {
    Item(T),
    /// Look again at what the state says.
    Wake,
}

/// A bounded queue and the thread behind it.
pub(super) struct Feed<T> {
    queue: SyncSender<Message<T>>,
    state: Arc<State>,
    running: Mutex<Option<Running>>,
}

/// The thread; the receiver disconnects when it ends.
struct Running {
    thread: JoinHandle<()>,
    ended: Receiver<()>,
}

impl<T: Send + 'static> Feed<T> {
    /// Starts the thread.
    ///
    /// # Errors
    ///
    /// The system has no thread to give.
    pub(super) fn start<C: Consumer<T>>(settings: Settings, consumer: C) -> io::Result<Self> {
        let (queue, items) = mpsc::sync_channel(settings.queue);
        let (alive, ended) = mpsc::channel();
        let state = Arc::new(State::new(settings.name));
        let shared = Arc::clone(&state);
        let thread = thread::Builder::new().name(settings.name.to_owned()).spawn(move || {
            Gathering { items, state: shared, consumer, settings }.run();
            drop(alive);
        })?;
        Ok(Self { queue, state, running: Mutex::new(Some(Running { thread, ended })) })
    }

    /// Queues an item. Never waits: where the queue is full, or the feed is closed, the item is
    /// dropped and counted.
    pub(super) fn offer(&self, item: T) {
        match self.queue.try_send(Message::Item(item)) {
            Ok(()) => {}
            Err(TrySendError::Full(_)) => self.state.refused("the queue is full"),
            Err(TrySendError::Disconnected(_)) => self.state.refused("it is closed"),
        }
    }

    /// Items that did not reach the sink since the start.
    pub(super) fn dropped(&self) -> u64 {
        self.state.dropped()
    }

    /// Has the consumer open its sink anew, before its next batch and at once where it is idle.
    pub(super) fn reopen(&self) {
        self.state.ask_to_reopen();
        self.wake();
    }

    /// Hands on what is queued and ends the thread. Blocks for at most `wait`, and a second more
    /// where that was too short. A second call does nothing.
    pub(super) fn close(&self, wait: Duration) -> Result<(), Incomplete> {
        self.state.close();
        self.wake();
        let mut running = self.running.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(Running { thread, ended }) = running.take() else {
            return Ok(());
        };
        let over = |wait| ended.recv_timeout(wait) != Err(RecvTimeoutError::Timeout);
        let in_time = over(wait);
        if !in_time {
            self.state.give_up();
            if !over(GIVE_UP_WAIT) {
                *running = Some(Running { thread, ended });
                return Err(Incomplete);
            }
        }
        let sound = thread.join().is_ok();
        if in_time && sound { Ok(()) } else { Err(Incomplete) }
    }

    /// A full queue keeps the thread awake, and a disconnected one has none.
    fn wake(&self) {
        let _ = self.queue.try_send(Message::Wake);
    }
}

impl<T> fmt::Debug for Feed<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Feed").field("state", &self.state).finish_non_exhaustive()
    }
}

/// The thread's side.
struct Gathering<T, C> {
    items: Receiver<Message<T>>,
    state: Arc<State>,
    consumer: C,
    settings: Settings,
}

impl<T, C: Consumer<T>> Gathering<T, C> {
    /// Runs until the feed is closed or gone, and everything queued before that is handed on.
    fn run(mut self) {
        let mut batch = Vec::new();
        let mut drained = true;
        while let Some(first) = self.first() {
            let mut weight = 0;
            self.add(first, &mut batch, &mut weight);
            // What a full batch has left behind has waited already.
            if drained {
                self.gather(&mut batch, &mut weight);
            }
            // Read before the queue is emptied: whatever was queued before the closing is then
            // seen to be there.
            let closing = self.state.is_closing();
            drained = self.drain(&mut batch, &mut weight);
            if self.state.take_reopen() {
                self.consumer.reopen();
            }
            if !batch.is_empty() {
                self.consumer.consume(&mut batch, &self.state);
                batch.clear();
            }
            if closing && drained {
                break;
            }
        }
    }

    /// Waits for a message. A feed that closes while its queue is full cannot be woken by a message,
    /// so a closing one is not waited for.
    fn first(&self) -> Option<Message<T>> {
        match self.state.is_closing() {
            true => self.items.try_recv().ok(),
            false => self.items.recv().ok(),
        }
    }

    /// Sleeps and empties the queue in turn, until the batch is full or has waited long enough.
    fn gather(&self, batch: &mut Vec<T>, weight: &mut usize) {
        let started = Instant::now();
        loop {
            if self.state.is_closing() || self.state.is_to_reopen() {
                return;
            }
            thread::sleep(TICK);
            if started.elapsed() >= self.settings.linger || !self.drain(batch, weight) {
                return;
            }
        }
    }

    /// Takes what waits already; true when nothing waits any more.
    fn drain(&self, batch: &mut Vec<T>, weight: &mut usize) -> bool {
        while *weight < self.settings.batch {
            match self.items.try_recv() {
                Ok(message) => self.add(message, batch, weight),
                Err(TryRecvError::Empty | TryRecvError::Disconnected) => return true,
            }
        }
        false
    }

    fn add(&self, message: Message<T>, batch: &mut Vec<T>, weight: &mut usize) {
        if let Message::Item(item) = message {
            *weight += C::weight(&item);
            batch.push(item);
        }
    }
}
