//! Lines into a file or onto standard output.

use std::fs::OpenOptions;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use crate::observe::feed::{Consumer, State};

/// What the audit trail is written to.
pub(super) struct Stream {
    sink: Box<dyn Write + Send>,
    /// The sink's path, if it is a file that can be opened anew.
    path: Option<PathBuf>,
    /// The sink holds a piece of a line that was lost: end it before the next one.
    torn: bool,
    /// The lines of a batch as one text.
    text: Vec<u8>,
}

impl Stream {
    /// Any writer.
    pub(super) fn new(sink: Box<dyn Write + Send>) -> Self {
        Self { sink, path: None, torn: false, text: Vec::new() }
    }

    /// A file to append to, made with mode 0600 where it does not exist.
    pub(super) fn file(path: &Path) -> io::Result<Self> {
        let file = append_to(path)?;
        Ok(Self { path: Some(path.to_owned()), ..Self::new(Box::new(file)) })
    }

    /// Writes whole lines. Those that the sink does not take are counted as dropped; the next batch
    /// is tried all the same.
    fn write(&mut self, text: &[u8], state: &State) {
        let mut written = 0;
        if let Err(error) = self.try_write(text, &mut written) {
            if written > 0 {
                self.torn = text[written - 1] != b'\n';
            }
            let lost = text[written..].iter().filter(|byte| **byte == b'\n').count();
            state.lost(lost as u64, &error);
        }
    }

    fn try_write(&mut self, text: &[u8], written: &mut usize) -> io::Result<()> {
        if self.torn {
            self.sink.write_all(b"\n")?;
            self.torn = false;
        }
        while *written < text.len() {
            match self.sink.write(&text[*written..]) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(count) => *written += count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        self.sink.flush()
    }
}

impl Consumer<Vec<u8>> for Stream {
    fn weight(line: &Vec<u8>) -> usize {
        line.len()
    }

    fn consume(&mut self, batch: &mut Vec<Vec<u8>>, state: &State) {
        let mut text = std::mem::take(&mut self.text);
        batch.drain(..).for_each(|line| text.extend_from_slice(&line));
        self.write(&text, state);
        text.clear();
        self.text = text;
    }

    /// A file that was renamed away is left to whoever renamed it. Where no new one can be opened,
    /// lines go on into the old one, so that none is lost.
    fn reopen(&mut self) {
        let Some(path) = &self.path else { return };
        match append_to(path) {
            Ok(file) => {
                self.sink = Box::new(file);
                self.torn = false;
                tracing::info!(path = %path.display(), "the audit file was opened anew");
            }
            Err(error) => tracing::error!(
                path = %path.display(), %error,
                "the audit file cannot be opened anew; lines go on into the old one"
            ),
        }
    }
}

fn append_to(path: &Path) -> io::Result<std::fs::File> {
    let mut options = OpenOptions::new();
    options.append(true).create(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.open(path)
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

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

    fn stream(disk: &Disk) -> (Stream, State) {
        (Stream::new(Box::new(disk.clone())), State::new("audit"))
    }

    #[test]
    fn lines_that_a_full_disk_refuses_are_counted_and_the_next_ones_are_tried() {
        let disk = Disk::with_room("one\n".len());
        let (mut stream, state) = stream(&disk);
        stream.write(b"one\ntwo\nthree\n", &state);
        assert_eq!(state.dropped(), 2);
        stream.write(b"four\n", &state);
        assert_eq!(state.dropped(), 3);
        disk.set_room(100);
        stream.write(b"five\n", &state);
        assert_eq!(state.dropped(), 3);
        assert_eq!(disk.text(), "one\nfive\n");
    }

    #[test]
    fn a_line_that_was_cut_off_does_not_spoil_the_next_one() {
        let disk = Disk::with_room("one\ntw".len());
        let (mut stream, state) = stream(&disk);
        stream.write(b"one\ntwo\n", &state);
        stream.write(b"three\n", &state);
        disk.set_room(100);
        stream.write(b"four\n", &state);
        assert_eq!(disk.text(), "one\ntw\nfour\n");
        assert_eq!(state.dropped(), 2);
    }

    #[test]
    fn a_failing_sink_is_said_once_a_period_and_not_once_a_line() {
        let said = Disk::with_room(usize::MAX);
        let log = said.clone();
        let subscriber =
            tracing_subscriber::fmt().with_ansi(false).with_writer(move || log.clone()).finish();
        tracing::subscriber::with_default(subscriber, || {
            let (mut stream, state) = stream(&Disk::with_room(0));
            (0..100).for_each(|_| stream.write(b"line\n", &state));
            assert_eq!(state.dropped(), 100);
        });
        assert_eq!(said.text().matches("the sink fails").count(), 1, "{}", said.text());
    }
}
