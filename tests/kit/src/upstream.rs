//! An upstream that misbehaves on demand: HTTP/1 and HTTP/2 (prior knowledge), a TCP echo, and an
//! address that refuses connections. The path of a request decides how it is answered; see
//! [`Behaviour`].

mod behaviour;
mod h1;
mod h2;
mod holds;

use std::collections::{HashMap, VecDeque};
use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpSocket, TcpStream};
use tokio::time::sleep;

pub use self::behaviour::Behaviour;
use self::holds::Holds;
use crate::h1::{Client, Request};
use crate::server::Server;
use crate::wait::{ANSWER, wait_for};
use crate::wire::{Headers, local};
use crate::{Context as _, Outcome, ensure_eq, locked};

/// The number of requests that are kept, the last ones.
const REMEMBERED: usize = 1_000;

/// A request as the upstream saw it.
#[derive(Clone, Debug)]
pub struct Received {
    pub method: String,
    pub path: String,
    /// HTTP/2 only.
    pub scheme: Option<String>,
    pub authority: String,
    pub headers: Headers,
}

impl Received {
    pub fn header(&self, name: &str) -> Option<String> {
        self.headers.get(name)
    }
}

pub struct Upstream {
    h1: Server,
    h2: Server,
    tcp: Server,
    refused: SocketAddr,
    shared: Arc<Shared>,
    /// Bound and never listening, so that the port stays refused.
    _refusing: TcpSocket,
}

#[derive(Default)]
struct Shared {
    holds: Holds,
    requests: AtomicUsize,
    received: Mutex<VecDeque<Received>>,
    attempts: Mutex<HashMap<String, u32>>,
}

impl Upstream {
    pub async fn start() -> Outcome<Self> {
        let shared = Arc::new(Shared::default());
        let refusing = TcpSocket::new_v4()?;
        refusing.bind(local(0))?;
        let (one, two) = (Arc::clone(&shared), Arc::clone(&shared));
        Ok(Self {
            h1: Server::start(move |tcp| h1::connection(tcp, Arc::clone(&one))).await?,
            h2: Server::start(move |tcp| h2::connection(tcp, Arc::clone(&two))).await?,
            tcp: Server::start(echo).await?,
            refused: refusing.local_addr()?,
            shared,
            _refusing: refusing,
        })
    }

    pub fn h1(&self) -> SocketAddr {
        self.h1.address
    }

    pub fn h2(&self) -> SocketAddr {
        self.h2.address
    }

    /// Sends back every byte; the far end of CONNECT tunnels.
    pub fn tcp(&self) -> SocketAddr {
        self.tcp.address
    }

    /// Connections to it are refused.
    pub fn refused(&self) -> SocketAddr {
        self.refused
    }

    /// Requests ever received.
    pub fn requests(&self) -> usize {
        self.shared.requests.load(Ordering::Relaxed)
    }

    /// The last requests, oldest first.
    pub fn received(&self) -> Vec<Received> {
        locked(&self.shared.received).iter().cloned().collect()
    }

    pub fn last(&self) -> Outcome<Received> {
        locked(&self.shared.received).back().cloned().context("the upstream received no request")
    }

    pub fn forget(&self) {
        locked(&self.shared.received).clear();
    }

    /// Requests that wait in `/hold` or go on in `/stream`, under that key.
    pub fn held(&self, key: &str) -> usize {
        self.shared.holds.held(key)
    }

    pub async fn wait_held(&self, key: &str, count: usize, limit: Duration) -> Outcome {
        let look = async || {
            ensure_eq!(self.held(key), count, "held under {key:?}");
            Ok(())
        };
        wait_for(limit, "requests held at the upstream", look).await
    }

    /// Sends a request to a proxy of this upstream. It is in flight until the key is released.
    pub async fn hold(&self, proxy: SocketAddr, key: &str) -> Outcome<Client> {
        let client = Client::with_request(proxy, &Request::get(&format!("/hold/{key}"))).await?;
        self.wait_held(key, 1, ANSWER).await?;
        Ok(client)
    }

    /// Holds this number of further requests, each on a separate connection.
    pub async fn hold_many(
        &self,
        proxy: SocketAddr,
        key: &str,
        count: usize,
    ) -> Outcome<Vec<Client>> {
        let all = self.held(key) + count;
        let request = Request::get(&format!("/hold/{key}"));
        let mut clients = Vec::new();
        for _ in 0..count {
            clients.push(Client::with_request(proxy, &request).await?);
        }
        self.wait_held(key, all, ANSWER).await?;
        Ok(clients)
    }

    /// Releases all requests that are held under that key now.
    pub fn release(&self, key: &str) {
        self.shared.holds.release(key);
    }
}

impl Shared {
    fn record(&self, request: Received) {
        self.requests.fetch_add(1, Ordering::Relaxed);
        let mut received = locked(&self.received);
        if received.len() == REMEMBERED {
            received.pop_front();
        }
        received.push_back(request);
    }

    /// The status and the body for behaviours that are the same over HTTP/1 and HTTP/2.
    async fn plain(&self, behaviour: &Behaviour, request: &Received) -> (u16, Vec<u8>) {
        match behaviour {
            Behaviour::Delay(time) => {
                sleep(*time).await;
                (200, b"delayed".to_vec())
            }
            Behaviour::Hold(key) => {
                self.holds.hold(key).released().await;
                (200, b"released".to_vec())
            }
            Behaviour::Status(204) => (204, Vec::new()),
            Behaviour::Status(status) => (*status, b"as asked".to_vec()),
            Behaviour::Bytes(count) => (200, vec![b'x'; *count]),
            Behaviour::Flaky(key) if self.odd_attempt(key) => (503, b"flaky".to_vec()),
            Behaviour::Flaky(_) => (200, b"flaky".to_vec()),
            _ => (200, request.path.clone().into_bytes()),
        }
    }

    /// True for the first, third, … request of that key.
    fn odd_attempt(&self, key: &str) -> bool {
        let mut attempts = locked(&self.attempts);
        let attempt = attempts.entry(key.to_owned()).or_default();
        *attempt += 1;
        *attempt % 2 == 1
    }
}

async fn echo(mut tcp: TcpStream) -> Outcome {
    let (mut reader, mut writer) = tcp.split();
    let mut buffer = vec![0; 16 * 1024];
    loop {
        let count = reader.read(&mut buffer).await?;
        if count == 0 {
            return Ok(writer.shutdown().await?);
        }
        writer.write_all(&buffer[..count]).await?;
    }
}
