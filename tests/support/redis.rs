//! A real Redis server of a test's own: a free port, a data folder, and settings as the test likes.

use std::net::{TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use onceward::store::ReceiptSettings;
use onceward::store::redis::{RedisSettings, RedisUrl};
use tempfile::TempDir;

/// How long a server may take to answer; never part of what a test asserts.
const PATIENCE: Duration = Duration::from_secs(30);

/// What tells the wall clock of a server: the offset in its file, read each time that it is asked.
/// The C library comes before the allocator that Debian's Redis is linked with, which would ask for
/// the time before libfaketime is ready to tell it.
const FAKE_TIME: [(&str, &str); 4] = [
    ("LD_PRELOAD", "/usr/$LIB/faketime/libfaketimeMT.so.1 libc.so.6"),
    ("FAKETIME_NO_CACHE", "1"),
    // Both spellings are in use. Time-outs of the server's own go on as they are.
    ("FAKETIME_DONT_FAKE_MONOTONIC", "1"),
    ("DONT_FAKE_MONOTONIC", "1"),
];

/// A stamp that the server's clock does not reach in our time, in microseconds: from there on a
/// domain's time is what the test makes it, and a microsecond for each script.
pub const FAR_OFF: u64 = 4_000_000_000_000_000;

/// How a store connects whose test is not about time-outs.
pub fn patient(url: &str, prefix: &str, lease: Duration) -> RedisSettings {
    RedisSettings {
        url: RedisUrl::parse(url).expect("a URL"),
        prefix: prefix.to_owned(),
        lease,
        wait_replicas: 0,
        connections: 4,
        connect_timeout: Duration::from_secs(20),
        timeout: Duration::from_secs(20),
        dispatch_margin: Duration::from_secs(1),
        receipts: ReceiptSettings::default(),
    }
}

/// The program that is run as a server: `redis-server`, or what the environment says, as a Valkey.
fn program() -> String {
    std::env::var("ONCEWARD_TEST_REDIS_SERVER").unwrap_or_else(|_| "redis-server".to_owned())
}

/// A running server; it is killed with the value.
pub struct RedisServer {
    port: u16,
    folder: TempDir,
    settings: Vec<String>,
    /// Whether the test sets its wall clock.
    clocked: bool,
    child: Mutex<Option<Child>>,
}

impl RedisServer {
    /// A server that keeps nothing on disk.
    pub fn start() -> Self {
        Self::with(&["--save", "", "--appendonly", "no"])
    }

    /// A server with these arguments.
    pub fn with(settings: &[&str]) -> Self {
        Self::new(settings, false)
    }

    /// A server with these arguments whose wall clock is [set](Self::set_clock) by the test.
    pub fn with_a_clock(settings: &[&str]) -> Self {
        Self::new(settings, true)
    }

    fn new(settings: &[&str], clocked: bool) -> Self {
        let settings = settings.iter().map(|setting| (*setting).to_owned()).collect();
        let folder = tempfile::tempdir().expect("a folder");
        let mut server = Self { port: 0, folder, settings, clocked, child: Mutex::default() };
        server.write_clock(0);
        // Somebody else may take a free port before the server does.
        for _ in 0..20 {
            server.port = free_port();
            if server.run() {
                return server;
            }
        }
        panic!("no redis-server came up: is it installed?");
    }

    fn run(&self) -> bool {
        let mut command = Command::new(program());
        if self.clocked {
            command.envs(FAKE_TIME).env("FAKETIME_TIMESTAMP_FILE", self.clock_file());
        }
        command.args(&self.settings);
        command.args(["--port", &self.port.to_string(), "--bind", "127.0.0.1"]);
        command.args(["--daemonize", "no", "--loglevel", "warning"]);
        command.arg("--dir").arg(self.folder.path());
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let mut child = command.spawn().expect("the server's program");
        let deadline = Instant::now() + PATIENCE;
        let up = loop {
            if matches!(child.try_wait(), Ok(Some(_))) || Instant::now() > deadline {
                break false;
            }
            if self.answers(child.id()) {
                break true;
            }
            std::thread::sleep(Duration::from_millis(5));
        };
        *self.child() = Some(child);
        if !up {
            self.kill();
        }
        up
    }

    /// Whether it is this process that answers on the port, and not another one's server.
    fn answers(&self, id: u32) -> bool {
        if TcpStream::connect(("127.0.0.1", self.port)).is_err() {
            return false;
        }
        let asked = self.try_connection().and_then(|mut connection| {
            redis::cmd("INFO").arg("server").query::<String>(&mut connection)
        });
        asked.is_ok_and(|info| info.contains(&format!("process_id:{id}\r\n")))
    }

    /// Ends it as a crash does.
    pub fn kill(&self) {
        if let Some(mut child) = self.child().take() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }

    /// Starts it again after a kill, with what its folder holds.
    pub fn restart(&self) {
        self.kill();
        assert!(self.run(), "the server does not come up again");
    }

    /// A Sentinel that knows `primary` as `main`, and replaces it soon after it is gone.
    pub fn sentinel(primary: &Self) -> Self {
        let mut sentinel = Self {
            port: 0,
            folder: tempfile::tempdir().expect("a folder"),
            settings: vec![],
            clocked: false,
            child: Mutex::default(),
        };
        let file = sentinel.folder.path().join("sentinel.conf");
        let watched = format!(
            "sentinel monitor main 127.0.0.1 {} 1\nsentinel down-after-milliseconds main 500\n\
             sentinel failover-timeout main 2000\n",
            primary.port
        );
        for _ in 0..20 {
            std::fs::write(&file, &watched).expect("written");
            sentinel.port = free_port();
            sentinel.settings = vec![file.to_string_lossy().into_owned(), "--sentinel".to_owned()];
            if sentinel.run() {
                return sentinel;
            }
        }
        panic!("no sentinel came up");
    }

    /// Sends its process a signal by its name.
    pub fn signal(&self, name: &str) {
        let id = self.child().as_ref().expect("a running server").id().to_string();
        let sent = Command::new("kill").args([&format!("-{name}"), &id]).status();
        assert!(sent.expect("kill").success(), "the server is gone");
    }

    /// Sets its wall clock, as seconds from the real one.
    pub fn set_clock(&self, seconds: i64) {
        let (before, start) = (self.now(), Instant::now());
        let expected = before + seconds - self.write_clock(seconds);
        // A server may keep the time for some milliseconds, and these are whole seconds.
        while (self.now() - expected).abs() > start.elapsed().as_secs() as i64 + 2 {
            let waited = start.elapsed() > PATIENCE;
            assert!(!waited, "its clock does not move: is libfaketime installed?");
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    /// Its wall clock in seconds since 1970.
    fn now(&self) -> i64 {
        self.command::<(i64, i64)>("TIME").0
    }

    fn clock_file(&self) -> std::path::PathBuf {
        self.folder.path().join("clock")
    }

    /// Gives the offset that held before.
    fn write_clock(&self, seconds: i64) -> i64 {
        let before = std::fs::read_to_string(self.clock_file()).unwrap_or_default();
        let next = self.folder.path().join("next-clock");
        std::fs::write(&next, format!("{seconds:+}\n")).expect("written");
        std::fs::rename(&next, self.clock_file()).expect("renamed");
        before.trim().parse().unwrap_or(0)
    }

    fn child(&self) -> std::sync::MutexGuard<'_, Option<Child>> {
        self.child.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How often a command was run since it began to count.
    pub fn calls(&self, command: &str) -> u32 {
        let stats = self.command::<String>("INFO commandstats");
        let start = format!("cmdstat_{command}:calls=");
        let rest = stats.lines().find_map(|line| line.strip_prefix(&start));
        rest.and_then(|rest| rest.split(',').next()?.parse().ok()).unwrap_or(0)
    }

    /// Its port on the loopback interface.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Its address.
    pub fn url(&self) -> String {
        format!("redis://127.0.0.1:{}", self.port)
    }

    /// A connection of the test's own.
    pub fn connection(&self) -> redis::Connection {
        self.try_connection().expect("a connection to redis")
    }

    fn try_connection(&self) -> redis::RedisResult<redis::Connection> {
        redis::Client::open(self.url())?.get_connection()
    }

    /// Runs a command, its words separated by spaces.
    pub fn command<T: redis::FromRedisValue>(&self, command: &str) -> T {
        let mut words = command.split(' ');
        let mut command = redis::cmd(words.next().expect("a word"));
        command.arg(words.collect::<Vec<_>>());
        command.query(&mut self.connection()).expect("redis does as it is told")
    }
}

impl Drop for RedisServer {
    fn drop(&mut self) {
        self.kill();
    }
}

/// The highest port that leaves room for the port of a cluster's nodes among themselves.
const HIGHEST_PORT: u16 = u16::MAX - 10_000;

fn free_port() -> u16 {
    loop {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let port = listener.local_addr().expect("its address").port();
        if port <= HIGHEST_PORT {
            return port;
        }
    }
}
