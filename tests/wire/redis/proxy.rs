//! A way to Redis that is slow or breaks where a test says.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use crate::support::{RedisServer, eventually};

/// A running proxy; it ends with the value.
pub struct Proxy {
    address: SocketAddr,
    faults: Arc<Faults>,
    task: tokio::task::JoinHandle<()>,
}

/// What becomes of every reply. Commands always get to the server at once.
#[derive(Debug, Clone, Copy)]
pub enum Way {
    /// It passes.
    Free,
    /// It is held for so long.
    Late(Duration),
    /// It comes byte by byte, each so long after the one before.
    Trickle(Duration),
    /// One of so many is lost, and its connection reset.
    Cut(usize),
}

struct Faults {
    target: Mutex<SocketAddr>,
    way: Mutex<Way>,
    replies: AtomicUsize,
    /// The reply to the next command that has this in it is lost, and its connection reset.
    marker: Mutex<Option<Vec<u8>>>,
    /// How many replies were lost.
    lost: AtomicUsize,
    /// Whether every connection is closed at once, from the first lost reply on.
    shut: AtomicBool,
    shut_then: AtomicBool,
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Proxy {
    /// A proxy in front of a server.
    pub async fn start(server: &RedisServer) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("bind");
        let address = listener.local_addr().expect("an address");
        let faults = Arc::new(Faults {
            target: Mutex::new(address_of(server)),
            way: Mutex::new(Way::Free),
            replies: AtomicUsize::default(),
            marker: Mutex::default(),
            lost: AtomicUsize::default(),
            shut: AtomicBool::default(),
            shut_then: AtomicBool::default(),
        });
        let task = tokio::spawn(accept(listener, Arc::clone(&faults)));
        Self { address, faults, task }
    }

    /// The URL of the server through the proxy.
    pub fn url(&self) -> String {
        format!("\"redis://{}\"", self.address)
    }

    /// New connections lead to another server.
    pub fn lead_to(&self, server: &RedisServer) {
        *self.faults.target.lock().unwrap() = address_of(server);
    }

    /// From now on this becomes of replies.
    pub fn set(&self, way: Way) {
        *self.faults.way.lock().unwrap() = way;
    }

    /// The next command with this text is passed on; its reply is lost in a reset.
    pub fn lose_the_reply_to(&self, text: &str) {
        *self.faults.marker.lock().unwrap() = Some(text.as_bytes().to_owned());
    }

    /// The same, and nobody gets through from then on.
    pub fn lose_the_reply_and_shut(&self, text: &str) {
        self.faults.shut_then.store(true, Ordering::SeqCst);
        self.lose_the_reply_to(text);
    }

    /// Lets everybody through again.
    pub fn open(&self) {
        self.faults.shut_then.store(false, Ordering::SeqCst);
        self.faults.shut.store(false, Ordering::SeqCst);
    }

    /// How many replies were lost.
    pub fn losses(&self) -> usize {
        self.faults.lost.load(Ordering::SeqCst)
    }

    /// Waits until a reply was lost.
    pub async fn lost(&self) {
        eventually("a lost reply", || async { (self.losses() > 0).then_some(()) }).await;
    }
}

fn address_of(server: &RedisServer) -> SocketAddr {
    SocketAddr::from(([127, 0, 0, 1], server.port()))
}

async fn accept(listener: TcpListener, faults: Arc<Faults>) {
    while let Ok((client, _)) = listener.accept().await {
        tokio::spawn(pass(client, Arc::clone(&faults)));
    }
}

async fn pass(mut client: TcpStream, faults: Arc<Faults>) -> Option<()> {
    let target = *faults.target.lock().unwrap();
    let mut server = TcpStream::connect(target).await.ok()?;
    client.set_nodelay(true).ok()?;
    let (mut asked, mut replied) = (vec![0; 1 << 16], vec![0; 1 << 16]);
    loop {
        if faults.shut.load(Ordering::SeqCst) {
            return None;
        }
        tokio::select! {
            read = client.read(&mut asked) => {
                let command = &asked[..read.ok().filter(|count| *count > 0)?];
                server.write_all(command).await.ok()?;
                if faults.loses(command) {
                    // The server has done it once it has answered.
                    let done = server.read(&mut replied).await.ok()?;
                    assert!(done > 0, "the server has gone");
                    faults.shut.store(faults.shut_then.load(Ordering::SeqCst), Ordering::SeqCst);
                    return faults.lose(&client);
                }
            }
            read = server.read(&mut replied) => {
                let reply = &replied[..read.ok().filter(|count| *count > 0)?];
                faults.hand_on(reply, &mut client).await?;
            }
        }
    }
}

impl Faults {
    /// Whether the reply to this command is to be lost; said once.
    fn loses(&self, command: &[u8]) -> bool {
        let mut marker = self.marker.lock().unwrap();
        let found = marker
            .as_ref()
            .is_some_and(|text| command.windows(text.len()).any(|window| window == &text[..]));
        if found {
            *marker = None;
        }
        found
    }

    fn lose(&self, client: &TcpStream) -> Option<()> {
        self.lost.fetch_add(1, Ordering::SeqCst);
        client.set_zero_linger().ok()?;
        None
    }

    /// `None` where the connection is over.
    async fn hand_on(&self, reply: &[u8], client: &mut TcpStream) -> Option<()> {
        let number = self.replies.fetch_add(1, Ordering::SeqCst);
        let way = *self.way.lock().unwrap();
        match way {
            Way::Free => client.write_all(reply).await.ok()?,
            Way::Late(by) => {
                tokio::time::sleep(by).await;
                client.write_all(reply).await.ok()?;
            }
            Way::Trickle(pause) => {
                for byte in reply {
                    client.write_all(&[*byte]).await.ok()?;
                    match pause.is_zero() {
                        true => tokio::task::yield_now().await,
                        false => tokio::time::sleep(pause).await,
                    }
                }
            }
            Way::Cut(one_in) if number.is_multiple_of(one_in) => return self.lose(client),
            Way::Cut(_) => client.write_all(reply).await.ok()?,
        }
        Some(())
    }
}
