//! The thread that writes the audit trail.

use std::io::{self, Write};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, TryRecvError};
use std::thread;
use std::time::Duration;

use super::State;

/// Lines that wait are written together, up to this many bytes and one line more at a time.
const BATCH_BYTES: usize = 64 * 1024;

/// How long the writer gathers lines after the first. A writer that waits in the queue is woken by
/// a system call of the worker that queues a line, which costs the worker more than the line itself;
/// one that sleeps is not.
const GATHER: Duration = Duration::from_millis(5);

/// What is queued.
pub(super) enum Message {
    /// One line, its line feed included.
    Line(Vec<u8>),
    /// Look again whether the trail is closing.
    Wake,
}

/// The one that writes.
pub(super) struct Writer {
    queue: Receiver<Message>,
    sink: Box<dyn Write + Send>,
    state: Arc<State>,
    /// The sink holds a piece of a line that was lost: end it before the next one.
    torn: bool,
}

impl Writer {
    pub(super) fn new(
        queue: Receiver<Message>,
        sink: Box<dyn Write + Send>,
        state: Arc<State>,
    ) -> Self {
        Self { queue, sink, state, torn: false }
    }

    /// Writes until the trail is closed or gone, and everything queued before that is written.
    pub(super) fn run(mut self) {
        let mut batch = Vec::new();
        let mut drained = true;
        while let Ok(first) = self.queue.recv() {
            // What a full batch has left behind has waited already.
            if drained && !self.state.closing.load(Ordering::SeqCst) {
                thread::sleep(GATHER);
            }
            // Read before the queue is drained: whatever was queued before the closing is then
            // seen to be there.
            let closing = self.state.closing.load(Ordering::SeqCst);
            first.append_to(&mut batch);
            drained = self.drain_into(&mut batch);
            self.write(&batch);
            batch.clear();
            if closing && drained {
                break;
            }
        }
    }

    /// Takes what waits already; true when nothing waits any more.
    fn drain_into(&self, batch: &mut Vec<u8>) -> bool {
        while batch.len() < BATCH_BYTES {
            match self.queue.try_recv() {
                Ok(message) => message.append_to(batch),
                Err(TryRecvError::Empty | TryRecvError::Disconnected) => return true,
            }
        }
        false
    }

    /// Writes whole lines. Those that the sink does not take are counted as dropped, and the
    /// failure is said once per period; the next batch is tried all the same.
    fn write(&mut self, batch: &[u8]) {
        let mut written = 0;
        if let Err(error) = self.try_write(batch, &mut written) {
            if written > 0 {
                self.torn = batch[written - 1] != b'\n';
            }
            let lost = batch[written..].iter().filter(|byte| **byte == b'\n').count() as u64;
            let dropped = self.state.dropped.fetch_add(lost, Ordering::Relaxed) + lost;
            if self.state.error_reports.allow(self.state.started.elapsed()) {
                tracing::error!(dropped, %error, "the audit sink fails; lines are being lost");
            }
        }
    }

    fn try_write(&mut self, batch: &[u8], written: &mut usize) -> io::Result<()> {
        if self.torn {
            self.sink.write_all(b"\n")?;
            self.torn = false;
        }
        while *written < batch.len() {
            match self.sink.write(&batch[*written..]) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(count) => *written += count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        self.sink.flush()
    }
}

impl Message {
    fn append_to(self, batch: &mut Vec<u8>) {
        match self {
            Self::Line(line) => batch.extend_from_slice(&line),
            Self::Wake => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Mutex, mpsc};

    use super::*;

    /// Takes `room` bytes, then fails until there is room again.
    #[derive(Clone)]
    struct Disk(Arc<Mutex<(usize, Vec<u8>)>>);

    impl Disk {
        fn with_room(room: usize) -> Self {
            Self(Arc::new(Mutex::new((room, Vec::new()))))
        }

        fn set_room(&self, room: usize) {
            self.0.lock().expect("not poisoned").0 = room;
        }

        fn text(&self) -> String {
            String::from_utf8(self.0.lock().expect("not poisoned").1.clone()).expect("text")
        }
    }

    impl Write for Disk {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            let (room, held) = &mut *self.0.lock().expect("not poisoned");
            let taken = bytes.len().min(*room);
            if taken == 0 {
                return Err(io::ErrorKind::StorageFull.into());
            }
            *room -= taken;
            held.extend_from_slice(&bytes[..taken]);
            Ok(taken)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    fn writer(disk: &Disk) -> (Writer, Arc<State>) {
        let state = Arc::new(State::new());
        let (_, queue) = mpsc::sync_channel(1);
        (Writer::new(queue, Box::new(disk.clone()), Arc::clone(&state)), state)
    }

    fn dropped(state: &State) -> u64 {
        state.dropped.load(Ordering::Relaxed)
    }

    #[test]
    fn lines_that_a_full_disk_refuses_are_counted_and_the_next_ones_are_tried() {
        let disk = Disk::with_room("one\n".len());
        let (mut writer, state) = writer(&disk);
        writer.write(b"one\ntwo\nthree\n");
        assert_eq!(dropped(&state), 2);
        writer.write(b"four\n");
        assert_eq!(dropped(&state), 3);
        disk.set_room(100);
        writer.write(b"five\n");
        assert_eq!(dropped(&state), 3);
        assert_eq!(disk.text(), "one\nfive\n");
    }

    #[test]
    fn a_line_that_was_cut_off_does_not_spoil_the_next_one() {
        let disk = Disk::with_room("one\ntw".len());
        let (mut writer, state) = writer(&disk);
        writer.write(b"one\ntwo\n");
        writer.write(b"three\n");
        disk.set_room(100);
        writer.write(b"four\n");
        assert_eq!(disk.text(), "one\ntw\nfour\n");
        assert_eq!(dropped(&state), 2);
    }

    #[test]
    fn a_failing_sink_is_said_once_a_period_and_not_once_a_line() {
        let said = Disk::with_room(usize::MAX);
        let log = said.clone();
        let subscriber =
            tracing_subscriber::fmt().with_ansi(false).with_writer(move || log.clone()).finish();
        tracing::subscriber::with_default(subscriber, || {
            let (mut writer, state) = writer(&Disk::with_room(0));
            (0..100).for_each(|_| writer.write(b"line\n"));
            assert_eq!(dropped(&state), 100);
        });
        assert_eq!(said.text().matches("the audit sink fails").count(), 1, "{}", said.text());
    }
}
