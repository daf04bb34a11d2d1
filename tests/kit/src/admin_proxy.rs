//! A server in the place of Envoy's admin interface: it sees every call of the gate, and a case
//! decides which calls go on to Envoy.

use std::net::SocketAddr;
use std::sync::{Arc, OnceLock};

use serde_json::Value;

use crate::Outcome;
use crate::bootstrap::cluster;
use crate::envoy::Envoy;
use crate::h1::{Request, once};
use crate::server::Server;
use crate::wire::Head;

/// How a call is handled.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum CallHandling {
    /// Envoy answers it.
    Forward,
    /// Envoy never sees it; the answer is 200.
    Intercept,
}

pub struct AdminProxy {
    server: Server,
    envoy: Arc<OnceLock<SocketAddr>>,
}

impl AdminProxy {
    /// Calls `decide` with the method and path of each call, once its body has arrived.
    pub async fn start(
        decide: impl Fn(&str, &str) -> CallHandling + Send + Sync + 'static,
    ) -> Outcome<Self> {
        let envoy = Arc::new(OnceLock::new());
        let known = Arc::clone(&envoy);
        let server = Server::answering(move |head| {
            let (handling, envoy) = (decide(head.word(0), head.word(1)), Arc::clone(&known));
            async move {
                Ok(match handling {
                    CallHandling::Intercept => (200, b"OK\n".to_vec()),
                    CallHandling::Forward => forward(envoy.get(), &head).await,
                })
            }
        });
        Ok(Self { server: server.await?, envoy })
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
