//! The queue, its writer and the sinks.

use std::io::{self, Write};
use std::sync::mpsc::{self, Receiver, Sender};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use super::*;

fn event(tool: &str) -> AuditEvent<'_> {
    AuditEvent {
        time: jiff::Timestamp::UNIX_EPOCH,
        server: Some("s"),
        namespace: Some("n"),
        human: None,
        agent: None,
        team: None,
        session: None,
        rpc_method: Some("tools/call"),
        tool: Some(tool),
        decision: AuditDecision::Allow,
        reason: None,
        matched_grant: None,
        status: 200,
        latency: Duration::ZERO,
        idempotency: None,
        idempotency_key_hash: None,
    }
}

/// The tools of the lines of a text, in order.
fn tools(text: &[u8]) -> Vec<String> {
    let text = std::str::from_utf8(text).expect("text");
    let tool = |line| {
        let value: serde_json::Value = serde_json::from_str(line).expect(line);
        value["tool"].as_str().expect("a tool").to_owned()
    };
    text.lines().map(tool).collect()
}

/// A sink in memory.
#[derive(Clone, Default)]
struct Memory(Arc<Mutex<Vec<u8>>>);

impl Memory {
    fn bytes(&self) -> Vec<u8> {
        self.0.lock().expect("not poisoned").clone()
    }
}

impl Write for Memory {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().expect("not poisoned").extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// A sink that says when it is written to, then waits to be let go; it stays open for good once
/// the other end of `let_go` is dropped.
struct Gate {
    entered: Sender<()>,
    let_go: Receiver<()>,
    inner: Memory,
}

impl Gate {
    fn new(inner: Memory) -> (Self, Receiver<()>, Sender<()>) {
        let (entered, at_gate) = mpsc::channel();
        let (open, let_go) = mpsc::channel();
        (Self { entered, let_go, inner }, at_gate, open)
    }
}

impl Write for Gate {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let _ = self.entered.send(());
        let _ = self.let_go.recv();
        self.inner.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[test]
fn a_full_queue_drops_and_counts_and_the_rest_is_written_in_order() {
    let memory = Memory::default();
    let (gate, at_gate, open) = Gate::new(memory.clone());
    let audit = Audit::start(Stream::new(Box::new(gate)), of_stream(4)).expect("a thread");

    audit.record(&event("held"));
    at_gate.recv().expect("the writer holds the first line");
    for tool in ["a", "b", "c", "d"] {
        audit.record(&event(tool));
    }
    assert_eq!(audit.dropped(), 0);
    for tool in ["e", "f", "g"] {
        audit.record(&event(tool));
    }
    assert_eq!(audit.dropped(), 3);

    drop(open);
    audit.close().expect("everything is written");
    assert_eq!(tools(&memory.bytes()), ["held", "a", "b", "c", "d"]);
    assert_eq!(audit.dropped(), 3);
}

#[test]
fn closing_waits_for_a_sink_that_stands_still_no_longer_than_told() {
    let memory = Memory::default();
    let (gate, at_gate, open) = Gate::new(memory.clone());
    let audit = Audit::with_sink(Box::new(gate)).expect("a thread");
    audit.record(&event("held"));
    at_gate.recv().expect("the writer holds the line");

    assert!(matches!(audit.close_within(Duration::ZERO), Err(AuditError::Incomplete)));
    drop(open);
    audit.close().expect("a second try finds it written");
    assert_eq!(tools(&memory.bytes()), ["held"]);
}

#[test]
fn a_closed_trail_counts_what_comes_too_late() {
    let memory = Memory::default();
    let audit = Audit::with_sink(Box::new(memory.clone())).expect("a thread");
    audit.record(&event("in time"));
    audit.close().expect("closed");
    audit.close().expect("closing twice does nothing");
    audit.record(&event("late"));
    assert_eq!(audit.dropped(), 1);
    assert_eq!(tools(&memory.bytes()), ["in time"]);
}

#[test]
fn a_file_is_made_private_and_appended_to() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("audit.jsonl");
    for tool in ["first run", "second run"] {
        let audit = Audit::open(AuditSink::File(path.clone())).expect("opened");
        audit.record(&event(tool));
        audit.close().expect("written");
        assert_eq!(audit.dropped(), 0);
    }
    assert_eq!(tools(&std::fs::read(&path).expect("a file")), ["first run", "second run"]);
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        let mode = std::fs::metadata(&path).expect("a file").permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
    }
}

#[test]
fn a_path_that_cannot_be_opened_is_named() {
    let folder = tempfile::tempdir().expect("a folder");
    let error = Audit::open(AuditSink::File(folder.path().to_owned()))
        .expect_err("a folder is no file")
        .to_string();
    assert!(error.contains(&folder.path().display().to_string()), "{error}");
    assert!(error.contains("`[audit] sink`"), "{error}");
}

#[test]
fn a_file_that_was_renamed_away_is_opened_anew_and_no_line_is_lost() {
    let folder = tempfile::tempdir().expect("a folder");
    let (path, rotated) = (folder.path().join("audit.jsonl"), folder.path().join("audit.jsonl.1"));
    let audit = Audit::open(AuditSink::File(path.clone())).expect("opened");
    audit.record(&event("before"));
    std::fs::rename(&path, &rotated).expect("renamed");
    audit.reopen();
    // The new file is made without another line.
    while !path.exists() {
        std::thread::yield_now();
    }
    audit.record(&event("after"));
    audit.close().expect("written");
    let held = |path| tools(&std::fs::read(path).expect("a file"));
    // A line that waits at the signal may go either way, and none is lost.
    assert_eq!([held(&rotated), held(&path)].concat(), ["before", "after"]);
    assert_eq!(held(&path).last().expect("a line"), "after");
    assert_eq!(audit.dropped(), 0);
}

#[test]
fn a_file_that_cannot_be_opened_anew_goes_on_under_its_old_name() {
    let folder = tempfile::tempdir().expect("a folder");
    let (path, moved) = (folder.path().join("audit.jsonl"), folder.path().join("moved.jsonl"));
    let audit = Audit::open(AuditSink::File(path.clone())).expect("opened");
    std::fs::rename(&path, &moved).expect("renamed");
    std::fs::create_dir(&path).expect("in its place");
    audit.reopen();
    audit.record(&event("kept"));
    audit.close().expect("written");
    assert_eq!(tools(&std::fs::read(&moved).expect("a file")), ["kept"]);
}

#[test]
fn closing_writes_a_queue_that_is_longer_than_one_batch() {
    let memory = Memory::default();
    let (gate, at_gate, open) = Gate::new(memory.clone());
    let audit = Audit::with_sink(Box::new(gate)).expect("a thread");
    audit.record(&event("held"));
    at_gate.recv().expect("the writer holds the first line");
    // At least 256 bytes each: two batches of 64 KiB and more.
    let long = "t".repeat(MAX_VALUE_BYTES);
    (0..600).for_each(|_| audit.record(&event(&long)));

    drop(open);
    audit.close().expect("everything is written");
    assert_eq!(tools(&memory.bytes()).len(), 601);
    assert_eq!(audit.dropped(), 0);
}
