//! A server in the place of Envoy's admin interface: it sees every call of the gate, and a case
//! decides which calls go on to Envoy, and which meet a fault.

use std::net::SocketAddr;
use std::sync::{Arc, OnceLock};
use std::thread::sleep;
use std::time::Duration;

use serde_json::Value;

use crate::Outcome;
use crate::bootstrap::cluster;
use crate::envoy::Envoy;
use crate::fake_server::{Answer, Asked, FakeServer, Fault};
use crate::h1::{Request, once};
use crate::wait::blocking;

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
    /// The connection ends before the first byte of an answer; Envoy never sees the call.
    Unanswered,
}

const PAGE: &str = "<!doctype html><title>Welcome</title><p>Nothing to see here.</p>\n";

pub struct AdminProxy {
    server: FakeServer,
    envoy: Arc<OnceLock<SocketAddr>>,
}

impl AdminProxy {
    /// Calls `decide` with the method and path of each call.
    pub fn start(
        decide: impl Fn(&str, &str) -> CallHandling + Send + Sync + 'static,
    ) -> Outcome<Self> {
        let envoy = Arc::<OnceLock<SocketAddr>>::default();
        let known = Arc::clone(&envoy);
        let server = FakeServer::start(move |asked, _| {
            handle(decide(&asked.method, &asked.target), || forward(known.get(), asked))
        })?;
        Ok(Self { server, envoy })
    }

    /// The cluster under which the gate looks for the admin interface.
    pub fn cluster(&self) -> Value {
        cluster::h1("prometheus_stats", self.server.address)
    }

    pub fn address(&self) -> SocketAddr {
        self.server.address
    }

    /// Sets the Envoy that answers forwarded calls. Until then, these calls are answered with 503.
    pub fn forward_to(&self, envoy: &Envoy) {
        self.envoy.get_or_init(|| envoy.admin());
    }
}

fn handle(handling: CallHandling, ask_envoy: impl FnOnce() -> Answer) -> Result<Answer, Fault> {
    Ok(match handling {
        CallHandling::Forward => ask_envoy(),
        CallHandling::Intercept => Answer::new(200).body("OK\n"),
        CallHandling::Fault(AdminFault::Slow(time)) => {
            sleep(time);
            ask_envoy()
        }
        CallHandling::Fault(AdminFault::Empty) => Answer::new(200),
        CallHandling::Fault(AdminFault::Foreign) => Answer::new(200).body(PAGE),
        CallHandling::Fault(AdminFault::Half) => {
            let answer = ask_envoy();
            let half = answer.body.len() / 2;
            return Err(Fault::Part(answer, half, Duration::ZERO));
        }
        CallHandling::Fault(AdminFault::Unavailable(time)) => {
            sleep(time);
            Answer::new(503)
        }
        CallHandling::Fault(AdminFault::Unanswered) => return Err(Fault::Bytes(b"")),
    })
}

/// Envoy's own status and body; 503 where Envoy gives none.
fn forward(envoy: Option<&SocketAddr>, asked: &Asked) -> Answer {
    let request = Request::new(&asked.method, &asked.target)
        .header("content-length", "0")
        .header("connection", "close");
    let answer = envoy.and_then(|&envoy| blocking(once(envoy, &request)).ok());
    answer.map_or(Answer::new(503), |answer| Answer::new(answer.status).body(answer.body))
}
