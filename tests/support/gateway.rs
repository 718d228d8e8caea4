//! The built program as a process.

use super::http::{Conn, Cut};
use super::message::{Request, Response};
use super::metrics::Metrics;
use super::policy::Policy;
use super::redis::RedisServer;
use super::tls::{Authority, Issued};
use super::upstream::Upstream;
use super::within;
use serde_json::Value;
use std::collections::BTreeMap;
use std::fmt::Write;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::{ExitStatus, Stdio};
use std::sync::Arc;
use tempfile::TempDir;
use tokio::io::{AsyncBufReadExt, AsyncRead, BufReader};
use tokio::process::{Child, Command};
use tokio::sync::watch;

const PROGRAM: &str = env!("CARGO_BIN_EXE_onceward");

/// What a program run ended with.
pub struct Finished {
    /// Its exit status.
    pub status: ExitStatus,
    /// All of its standard output.
    pub stdout: String,
    /// All of its standard error.
    pub stderr: String,
}

/// Runs the program with these arguments to its end.
pub async fn run<S: AsRef<std::ffi::OsStr>>(arguments: &[S]) -> Finished {
    let output = Command::new(PROGRAM).args(arguments).kill_on_drop(true).output();
    let output = within("the program's end", output).await.expect("the program");
    Finished {
        status: output.status,
        stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
        stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
    }
}

/// A configuration in the making.
pub struct Setup {
    folder: TempDir,
    tables: BTreeMap<String, BTreeMap<String, String>>,
    policies: Vec<Policy>,
    sessions: Option<Value>,
    environment: Vec<(String, String)>,
    redis: Option<Arc<RedisServer>>,
}

/// Which store the gateways of this run have: `redis` or, by default, `memory`.
pub fn store_of_the_run() -> String {
    std::env::var("ONCEWARD_TEST_STORE").unwrap_or_else(|_| "memory".to_owned())
}

impl Setup {
    /// The default policy in front of `upstream`.
    pub fn new(upstream: &Upstream) -> Self {
        Self::policies([Policy::new(&upstream.url())])
    }

    /// These policies, each a document in the policy folder.
    pub fn policies(policies: impl IntoIterator<Item = Policy>) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        Self {
            folder,
            tables: BTreeMap::new(),
            policies: policies.into_iter().collect(),
            sessions: None,
            environment: Vec::new(),
            redis: None,
        }
        .set("listen", "mcp", "\"127.0.0.1:0\"")
        .set("listen", "admin", "\"127.0.0.1:0\"")
        .set("policy", "reload", "\"50ms\"")
        .set("audit", "sink", "\"stdout\"")
        .set("limits", "scope_tombstones", "32")
        .set("upstream", "circuit_failures", "1000")
    }

    /// Takes back the room that most tests have, so that many failures in a row do not get in
    /// their way: the limits are the program's own defaults.
    pub fn default_limits(mut self) -> Self {
        for table in ["limits", "upstream"] {
            self.tables.remove(table);
        }
        self
    }

    /// Changes the policy documents.
    pub fn policy(mut self, change: impl Fn(Policy) -> Policy) -> Self {
        self.policies = self.policies.into_iter().map(change).collect();
        self
    }

    /// Sets one key of the process configuration, its value as TOML text.
    pub fn set(mut self, table: &str, key: &str, value: &str) -> Self {
        let keys = self.tables.entry(table.to_owned()).or_default();
        keys.insert(key.to_owned(), value.to_owned());
        self
    }

    /// Writes a sessions file with these bindings, polled often.
    pub fn sessions_file(mut self, bindings: Value) -> Self {
        let path = self.folder.path().join("sessions.json");
        self.sessions = Some(bindings);
        self.set("sessions", "path", &format!("{path:?}")).set("sessions", "sync", "\"50ms\"")
    }

    /// Speaks TLS on the MCP listener with this certificate, its files read often, and asks for
    /// client certificates of `authority` where there is one.
    pub fn tls(self, certificate: &Issued, authority: Option<&Authority>) -> Self {
        let path = |name: &str| format!("{:?}", self.folder.path().join(name));
        let (cert, key, client_ca) = (path("cert.pem"), path("key.pem"), path("client_ca.pem"));
        replace(&self.folder, "cert.pem", &certificate.pem());
        replace(&self.folder, "key.pem", &certificate.key_pem());
        let setup = self.set("listen.tls", "cert", &cert).set("listen.tls", "key", &key).set(
            "listen.tls",
            "reload",
            "\"50ms\"",
        );
        let Some(authority) = authority else { return setup };
        replace(&setup.folder, "client_ca.pem", &authority.pem());
        setup.set("listen.tls", "client_ca", &client_ca)
    }

    /// Sets a variable of the program's environment.
    pub fn env(mut self, name: &str, value: &str) -> Self {
        self.environment.push((name.to_owned(), value.to_owned()));
        self
    }

    /// Keeps records in this server.
    pub fn redis(mut self, server: &Arc<RedisServer>) -> Self {
        self.redis = Some(Arc::clone(server));
        self.set("store", "kind", "\"redis\"").set("store", "url", &format!("{:?}", server.url()))
    }

    /// The store that the run is to have, where the test does not choose one.
    fn with_a_store(self) -> Self {
        match store_of_the_run().as_str() {
            "redis" if self.redis.is_none() => self.redis(&Arc::new(RedisServer::start())),
            _ => self,
        }
    }

    /// Writes the files and gives the path of the configuration.
    pub fn write(&self) -> PathBuf {
        let policies = self.folder.path().join("policies");
        std::fs::create_dir_all(&policies).expect("a folder");
        for (number, policy) in self.policies.iter().enumerate() {
            replace(&self.folder, &format!("policies/{number}.json"), &policy.0.to_string());
        }
        if let Some(sessions) = &self.sessions {
            replace(&self.folder, "sessions.json", &sessions.to_string());
        }
        let mut tables = self.tables.clone();
        let held = tables.entry("policy".to_owned()).or_default();
        held.entry("path".to_owned()).or_insert_with(|| format!("{policies:?}"));
        let mut text = String::new();
        for (table, keys) in &tables {
            writeln!(text, "[{table}]").expect("text");
            for (key, value) in keys {
                writeln!(text, "{key} = {value}").expect("text");
            }
        }
        replace(&self.folder, "onceward.toml", &text);
        self.folder.path().join("onceward.toml")
    }

    /// Starts the gateway with this configuration.
    pub async fn start(self) -> Gateway {
        let chosen = self.redis.is_some();
        let setup = self.with_a_store();
        let config = setup.write();
        let mut command = Command::new(PROGRAM);
        command.arg("serve").arg("--config").arg(config);
        command.envs(setup.environment.iter().map(|(name, value)| (name, value)));
        let mut gateway = Gateway::spawn(command, Some(setup.folder)).await;
        gateway._redis = setup.redis;
        if !chosen && gateway._redis.is_some() {
            gateway.has_its_store().await;
        }
        gateway
    }
}

/// A running gateway; it is killed with the value.
pub struct Gateway {
    /// Where agents connect.
    pub mcp: SocketAddr,
    /// Where operators connect.
    pub admin: SocketAddr,
    child: Child,
    stdout: Lines,
    stderr: Lines,
    folder: Option<TempDir>,
    _redis: Option<Arc<RedisServer>>,
}

impl Gateway {
    /// The gateway with the default policy in front of `upstream`.
    pub async fn start(upstream: &Upstream) -> Self {
        Setup::new(upstream).start().await
    }

    /// The gateway with these arguments alone.
    pub async fn start_with<S: AsRef<std::ffi::OsStr>>(
        arguments: &[S],
        environment: &[(&str, &str)],
    ) -> Self {
        let mut command = Command::new(PROGRAM);
        command.args(arguments).envs(environment.iter().copied());
        Self::spawn(command, None).await
    }

    async fn spawn(mut command: Command, folder: Option<TempDir>) -> Self {
        command.env("NO_COLOR", "1").stdin(Stdio::null());
        command.stdout(Stdio::piped()).stderr(Stdio::piped()).kill_on_drop(true);
        let mut child = command.spawn().expect("the program");
        let stdout = Lines::read(child.stdout.take().expect("its output"));
        let stderr = Lines::read(child.stderr.take().expect("its errors"));
        let ready = stderr.find("the gateway to listen", |line| {
            Some((address(line, "mcp=")?, address(line, "admin=")?))
        });
        let (mcp, admin) = ready.await;
        Self { mcp, admin, child, stdout, stderr, folder, _redis: None }
    }

    /// Waits for a store that the test did not choose, and may take for one that is always there.
    async fn has_its_store(&self) {
        super::eventually("the store", || async {
            let ready = self.admin("/readyz").await;
            (!String::from_utf8_lossy(&ready.body).contains("store_unavailable")).then_some(())
        })
        .await;
    }

    /// A new connection to the MCP listener.
    pub async fn connect(&self) -> Conn {
        Conn::open(self.mcp).await
    }

    /// Sends a request on a connection of its own, and leaves that connection to the test.
    pub async fn begin(&self, request: &Request) -> Conn {
        let mut connection = self.connect().await;
        connection.send(request.bytes()).await;
        connection
    }

    /// Sends a request and reads its response, whole or cut.
    pub async fn exchange(&self, request: &Request) -> Result<Response, Cut> {
        self.begin(request).await.response().await
    }

    /// The same of a gateway that may have ended: `None` without a whole response.
    pub async fn try_exchange(&self, request: &Request) -> Option<Response> {
        let mut connection = Conn::try_open(self.mcp).await.ok()?;
        connection.send(request.bytes()).await;
        connection.response().await.ok()
    }

    /// Sends a request and reads its whole response.
    pub async fn send(&self, request: &Request) -> Response {
        match self.exchange(request).await {
            Ok(response) => response,
            Err(cut) => panic!("the gateway closed the connection: {cut:?}\n{}", self.stderr()),
        }
    }

    /// Principal A calls with a key.
    pub async fn call(&self, key: &str, body: impl Into<Vec<u8>>) -> Response {
        self.send(&Request::keyed(key, body)).await
    }

    /// Repeats a keyed call until it finds something else than the call in flight.
    pub async fn settled(&self, request: &Request) -> Response {
        super::eventually("the call to settle", || async {
            let response = self.send(request).await;
            (response.reason() != "idempotency_in_flight").then_some(response)
        })
        .await
    }

    /// What the admin listener answers to a GET.
    pub async fn admin(&self, path: &str) -> Response {
        self.try_admin(path).await.expect("the admin listener's answer")
    }

    /// The same of a gateway that may have ended.
    pub async fn try_admin(&self, path: &str) -> Option<Response> {
        let mut connection = Conn::try_open(self.admin).await.ok()?;
        let head = format!("GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n");
        connection.send(head).await;
        connection.response().await.ok()
    }

    /// The admin listener's numbers.
    pub async fn metrics(&self) -> Metrics {
        Metrics { text: self.admin("/metrics").await.text() }
    }

    /// The admin listener's account of the whole.
    pub async fn status(&self) -> Value {
        self.admin("/v1/status").await.json()
    }

    /// Waits for the `n`th audit line, counted from 1, and gives it.
    pub async fn audit(&self, n: usize) -> Value {
        let line = self.stdout.nth(&format!("audit line {n}"), n).await;
        serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error} in audit line {line}"))
    }

    /// All that went to standard output so far.
    pub fn stdout(&self) -> String {
        self.stdout.text()
    }

    /// All that went to standard error so far.
    pub fn stderr(&self) -> String {
        self.stderr.text()
    }

    /// Replaces policy document `number`, counted from 0.
    pub fn rewrite_policy(&self, number: usize, text: &str) {
        let folder = self.folder.as_ref().expect("a configuration folder");
        replace(folder, &format!("policies/{number}.json"), text);
    }

    /// Replaces the sessions file.
    pub fn rewrite_sessions(&self, text: &str) {
        self.rewrite("sessions.json", text);
    }

    /// Replaces a file of the configuration folder in one step.
    pub fn rewrite(&self, name: &str, text: &str) {
        let folder = self.folder.as_ref().expect("a configuration folder");
        replace(folder, name, text);
    }

    /// Writes into a file of the configuration folder as it stands there.
    pub fn rewrite_in_place(&self, name: &str, text: &str) {
        let folder = self.folder.as_ref().expect("a configuration folder");
        std::fs::write(folder.path().join(name), text).expect("write");
    }

    /// Asks the process to end.
    pub fn sigterm(&self) {
        self.signal("TERM");
    }

    /// Tells the process that its log files were rotated.
    pub fn sighup(&self) {
        self.signal("HUP");
    }

    /// Sends a signal by its name.
    pub fn signal(&self, name: &str) {
        let id = self.child.id().expect("a running process").to_string();
        let sent = std::process::Command::new("kill").args([&format!("-{name}"), &id]).status();
        assert!(sent.expect("kill").success(), "the process is gone");
    }

    /// The folder of the configuration.
    pub fn folder(&self) -> &std::path::Path {
        self.folder.as_ref().expect("a configuration folder").path()
    }

    /// Waits for the end of the process and of all that it wrote.
    pub async fn wait(&mut self) -> ExitStatus {
        let status = within("the gateway's end", self.child.wait()).await.expect("an exit status");
        self.stdout.ended().await;
        self.stderr.ended().await;
        status
    }
}

/// Replaces a file of the folder in one step, so that a reader sees the old text or the new one.
fn replace(folder: &TempDir, name: &str, text: &str) {
    let next = folder.path().join("next");
    std::fs::write(&next, text).expect("write");
    std::fs::rename(&next, folder.path().join(name)).expect("rename");
}

/// The socket address that follows `label` in a line.
fn address(line: &str, label: &str) -> Option<SocketAddr> {
    let (_, rest) = line.split_once(label)?;
    let end = rest.find(|c: char| !c.is_ascii_digit() && c != '.' && c != ':');
    rest[..end.unwrap_or(rest.len())].parse().ok()
}

/// The lines of a pipe, collected as they come.
struct Lines(Arc<watch::Sender<(Vec<String>, bool)>>);

impl Lines {
    fn read(pipe: impl AsyncRead + Unpin + Send + 'static) -> Self {
        let lines = Self(Arc::new(watch::Sender::new((Vec::new(), false))));
        let sender = Arc::clone(&lines.0);
        tokio::spawn(async move {
            let mut reader = BufReader::new(pipe).lines();
            while let Ok(Some(line)) = reader.next_line().await {
                sender.send_modify(|(lines, _)| lines.push(line));
            }
            sender.send_modify(|(_, ended)| *ended = true);
        });
        lines
    }

    async fn find<T>(&self, what: &str, probe: impl Fn(&str) -> Option<T>) -> T {
        let mut receiver = self.0.subscribe();
        let found = |lines: &[String]| lines.iter().find_map(|line| probe(line));
        let reached = receiver.wait_for(|(lines, ended)| *ended || found(lines).is_some());
        let held = within(what, reached).await.expect("the pipe").0.clone();
        found(&held).unwrap_or_else(|| panic!("waited in vain for {what}:\n{}", held.join("\n")))
    }

    async fn nth(&self, what: &str, n: usize) -> String {
        let mut receiver = self.0.subscribe();
        let reached = receiver.wait_for(|(lines, ended)| *ended || lines.len() >= n);
        let held = within(what, reached).await.expect("the pipe").0.clone();
        held.get(n - 1).unwrap_or_else(|| panic!("waited in vain for {what}")).clone()
    }

    async fn ended(&self) {
        let mut receiver = self.0.subscribe();
        let reached = receiver.wait_for(|(_, ended)| *ended);
        within("the end of a pipe", reached).await.expect("the pipe");
    }

    fn text(&self) -> String {
        self.0.borrow().0.join("\n")
    }
}
