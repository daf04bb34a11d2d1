//! A server in the place of Envoy's admin interface: it sees every call of the gate, and a case
//! decides which calls go on to Envoy, and which meet a fault.

use std::net::SocketAddr;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use serde_json::Value;
use tokio::net::TcpStream;
use tokio::time::sleep;

use crate::Outcome;
use crate::bootstrap::cluster;
use crate::envoy::Envoy;
use crate::h1::{Request, once};
use crate::server::Server;
use crate::wire::{Framing, Head, Wire};

/// How a call is handled.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum CallHandling {
    /// Envoy answers it.
    Forward,
    /// Envoy never sees it; the answer is 200.
    Intercept,
    /// The answer is not Envoy's, or not all of it.
    Fault(AdminFault),
}

/// A fault of an admin interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AdminFault {
    /// Envoy's answer comes this much later.
    Slow(Duration),
    /// 200 without a body.
    Empty,
    /// 200 with a page of another service.
    Foreign,
    /// Envoy's headers and half of its body, then the connection ends.
    Half,
    /// 503 after this time; Envoy never sees the call.
    Unavailable(Duration),
}

const PAGE: &[u8] = b"<!doctype html><title>Welcome</title><p>Nothing to see here.</p>\n";

pub struct AdminProxy {
    server: Server,
    envoy: Arc<OnceLock<SocketAddr>>,
}

impl AdminProxy {
    /// Calls `decide` with the method and path of each call, once its body has arrived.
    pub async fn start(
        decide: impl Fn(&str, &str) -> CallHandling + Send + Sync + 'static,
    ) -> Outcome<Self> {
        let (envoy, decide) = (Arc::new(OnceLock::new()), Arc::new(decide));
        let known = Arc::clone(&envoy);
        let server =
            Server::start(move |tcp| serve(tcp, Arc::clone(&decide), Arc::clone(&known))).await?;
        Ok(Self { server, envoy })
    }

    /// The cluster under which the gate looks for the admin interface.
    pub fn cluster(&self) -> Value {
        cluster::h1("prometheus_stats", self.server.address)
    }

    /// Sets the Envoy that answers forwarded calls. Until then, these calls are answered with 503.
    pub fn forward_to(&self, envoy: &Envoy) {
        self.envoy.get_or_init(|| envoy.admin());
    }
}

async fn serve(
    tcp: TcpStream,
    decide: Arc<impl Fn(&str, &str) -> CallHandling>,
    envoy: Arc<OnceLock<SocketAddr>>,
) -> Outcome {
    let mut wire = Wire::plain(tcp);
    while let Some(head) = wire.head().await? {
        wire.body(Framing::of_request(&head)).await?;
        let handling = decide(head.word(0), head.word(1));
        if let CallHandling::Fault(AdminFault::Slow(time) | AdminFault::Unavailable(time)) =
            handling
        {
            sleep(time).await;
        }
        let is_half = handling == CallHandling::Fault(AdminFault::Half);
        let (status, body) = match handling {
            CallHandling::Intercept => (200, b"OK\n".to_vec()),
            CallHandling::Fault(AdminFault::Empty) => (200, Vec::new()),
            CallHandling::Fault(AdminFault::Foreign) => (200, PAGE.to_vec()),
            CallHandling::Fault(AdminFault::Unavailable(_)) => (503, Vec::new()),
            CallHandling::Forward | CallHandling::Fault(AdminFault::Slow(_) | AdminFault::Half) => {
                forward(envoy.get(), &head).await
            }
        };
        let length = body.len();
        let sent = if is_half { &body[..length / 2] } else { &body };
        let head = format!("HTTP/1.1 {status} x\r\ncontent-length: {length}\r\n\r\n");
        wire.send(&[head.as_bytes(), sent].concat()).await?;
        if is_half {
            break;
        }
    }
    Ok(())
}

/// Envoy's own status and body; 503 where Envoy gives none.
async fn forward(envoy: Option<&SocketAddr>, head: &Head) -> (u16, Vec<u8>) {
    let request = Request::new(head.word(0), head.word(1))
        .header("content-length", "0")
        .header("connection", "close");
    let answer = match envoy {
        Some(&envoy) => once(envoy, &request).await.ok(),
        None => None,
    };
    answer.map_or((503, Vec::new()), |answer| (answer.status, answer.body))
}
