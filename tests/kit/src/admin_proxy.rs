//! A server in the place of Envoy's admin interface: it sees every call of the gate, and a case
//! decides which calls go on to Envoy.

use std::net::SocketAddr;
use std::sync::{Arc, OnceLock};

use serde_json::Value;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::AbortHandle;

use crate::bootstrap::cluster;
use crate::envoy::Envoy;
use crate::h1::{Request, once};
use crate::wire::{Framing, Head, Io, Wire, local};
use crate::{Context as _, Outcome};

/// What becomes of a call.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Fate {
    /// Envoy answers it.
    Forward,
    /// Envoy never sees it; the answer is 200.
    Swallow,
}

/// Decides by method and path, when a call has arrived whole.
type Judge = dyn Fn(&str, &str) -> Fate + Send + Sync;

pub struct AdminProxy {
    address: SocketAddr,
    envoy: Arc<OnceLock<SocketAddr>>,
    server: AbortHandle,
}

impl AdminProxy {
    pub async fn start(
        judge: impl Fn(&str, &str) -> Fate + Send + Sync + 'static,
    ) -> Outcome<Self> {
        let listener = TcpListener::bind(local(0))
            .await
            .context("listening in the place of Envoy's admin interface")?;
        let address = listener.local_addr()?;
        let envoy = Arc::new(OnceLock::new());
        let server =
            tokio::spawn(accept(listener, Arc::new(judge), Arc::clone(&envoy))).abort_handle();
        Ok(Self { address, envoy, server })
    }

    /// The cluster under which the gate looks for the admin interface.
    pub fn cluster(&self) -> Value {
        cluster::h1("prometheus_stats", self.address)
    }

    /// Until then calls are answered with 503.
    pub fn forward_to(&self, envoy: &Envoy) {
        self.envoy.get_or_init(|| envoy.admin());
    }
}

impl Drop for AdminProxy {
    fn drop(&mut self) {
        self.server.abort();
    }
}

async fn accept(listener: TcpListener, judge: Arc<Judge>, envoy: Arc<OnceLock<SocketAddr>>) {
    while let Ok((tcp, _)) = listener.accept().await {
        tokio::spawn(serve(tcp, Arc::clone(&judge), Arc::clone(&envoy)));
    }
}

async fn serve(tcp: TcpStream, judge: Arc<Judge>, envoy: Arc<OnceLock<SocketAddr>>) -> Outcome {
    tcp.set_nodelay(true)?;
    let mut wire = Wire::new(Io::Plain(tcp));
    while let Some(head) = wire.head().await? {
        wire.body(Framing::of_request(&head)).await?;
        let (status, body) = match judge(head.word(0), head.word(1)) {
            Fate::Swallow => (200, b"OK\n".to_vec()),
            Fate::Forward => forward(envoy.get(), &head).await,
        };
        let answer = format!("HTTP/1.1 {status} status\r\ncontent-length: {}\r\n\r\n", body.len());
        wire.send(&[answer.as_bytes(), &body].concat()).await?;
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
