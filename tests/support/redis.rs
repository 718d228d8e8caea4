//! A real Redis server of a test's own: a free port, a data folder, and settings as the test likes.

use std::net::{TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use tempfile::TempDir;

/// How long a server may take to answer; never part of what a test asserts.
const PATIENCE: Duration = Duration::from_secs(30);

/// A running server; it is killed with the value.
pub struct RedisServer {
    port: u16,
    folder: TempDir,
    settings: Vec<String>,
    child: Option<Child>,
}

impl RedisServer {
    /// A server that keeps nothing on disk.
    pub fn start() -> Self {
        Self::with(&["--save", "", "--appendonly", "no"])
    }

    /// A server with these arguments.
    pub fn with(settings: &[&str]) -> Self {
        let settings = settings.iter().map(|setting| (*setting).to_owned()).collect();
        let folder = tempfile::tempdir().expect("a folder");
        let mut server = Self { port: 0, folder, settings, child: None };
        // Somebody else may take a free port before the server does.
        for _ in 0..20 {
            server.port = free_port();
            if server.run() {
                return server;
            }
        }
        panic!("no redis-server came up: is it installed?");
    }

    fn run(&mut self) -> bool {
        let mut command = Command::new("redis-server");
        command.args(&self.settings);
        command.args(["--port", &self.port.to_string(), "--bind", "127.0.0.1"]);
        command.args(["--daemonize", "no", "--loglevel", "warning"]);
        command.arg("--dir").arg(self.folder.path());
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let mut child = command.spawn().expect("redis-server");
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
        self.child = Some(child);
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
    pub fn kill(&mut self) {
        if let Some(mut child) = self.child.take() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }

    /// Starts it again after a kill, with what its folder holds.
    pub fn restart(&mut self) {
        self.kill();
        assert!(self.run(), "the server does not come up again");
    }

    /// A Sentinel that knows `primary` as `main`, and replaces it soon after it is gone.
    pub fn sentinel(primary: &Self) -> Self {
        let mut sentinel = Self {
            port: 0,
            folder: tempfile::tempdir().expect("a folder"),
            settings: vec![],
            child: None,
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
        let id = self.child.as_ref().expect("a running server").id().to_string();
        let sent = Command::new("kill").args([&format!("-{name}"), &id]).status();
        assert!(sent.expect("kill").success(), "the server is gone");
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
