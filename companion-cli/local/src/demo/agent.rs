//! A model of Istio's pilot-agent around a real Envoy: its behaviour at SIGTERM, as read in its
//! source and measured on the real agent. It is the same in a gateway and in a classic sidecar.
//!
//! Like the agent, the model listens on a status port until SIGTERM. Then it drains Envoy's
//! listeners, waits for a fixed time, or with EXIT_ON_ZERO_ACTIVE_CONNECTIONS until Envoy has no
//! connection left, and kills Envoy. It also ends when Envoy ends before.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::thread;

use http::Method;

use super::clock::Clock;
use super::lane::{EndedBy, Lane};
use super::proxy::Proxy;
use super::times::Times;
use crate::server::{self, LISTEN, Server};
use laststream_base::causes::Context as _;

pub(super) struct Agent {
    shared: Arc<Shared>,
    status: Server,
}

struct Shared {
    lane: Lane,
    times: Times,
    proxy: OnceLock<Arc<Proxy>>,
    was_asked: AtomicBool,
    ended_by: OnceLock<EndedBy>,
    connections: Mutex<Option<u64>>,
    clock: OnceLock<Clock>,
}

impl Agent {
    /// Opens the status port before Envoy starts, because Envoy's configuration names the port.
    pub(super) fn start(lane: Lane, times: &Times) -> Result<Self, String> {
        let shared = Arc::new(Shared {
            lane,
            times: *times,
            proxy: OnceLock::new(),
            was_asked: AtomicBool::new(false),
            ended_by: OnceLock::new(),
            connections: Mutex::default(),
            clock: OnceLock::new(),
        });
        let status = status(&shared).context(LISTEN)?;
        Ok(Self { shared, status })
    }

    pub(super) fn port(&self) -> u16 {
        self.status.address().port()
    }

    pub(super) fn attach_proxy(&self, proxy: Arc<Proxy>) {
        let _ = self.shared.proxy.set(proxy); // called once
    }

    /// Starts the clock; from here on SIGTERM may come.
    pub(super) fn start_clock(&self, clock: &Clock) {
        let _ = self.shared.clock.set(clock.clone()); // called once
    }

    /// Whether a gate has asked for the agent, and so knows that it is there.
    pub(super) fn was_asked(&self) -> bool {
        self.shared.was_asked.load(Ordering::Relaxed)
    }

    pub(super) fn is_listening(&self) -> bool {
        !self.status.has_ended()
    }

    /// The reason for Envoy's end, if the agent or kubelet ended it.
    pub(super) fn ended_by(&self) -> Option<EndedBy> {
        self.shared.ended_by.get().copied()
    }

    /// The number of connections when the agent last asked Envoy.
    pub(super) fn connections(&self) -> Option<u64> {
        self.shared.connections.lock().ok().and_then(|count| *count)
    }

    /// SIGTERM.
    pub(super) fn terminate(&self) {
        self.status.kill();
        let shared = Arc::clone(&self.shared);
        thread::spawn(move || shared.end());
    }

    /// SIGKILL.
    pub(super) fn kill(&self) {
        self.status.kill();
        self.shared.kill(EndedBy::Sigkill);
    }

    pub(super) fn has_ended(&self) -> bool {
        self.shared.proxy.get().is_none_or(|proxy| proxy.has_ended())
    }
}

impl Drop for Agent {
    /// Ends Envoy now, because the agent's threads may still hold it for a moment.
    fn drop(&mut self) {
        if let Some(proxy) = self.shared.proxy.get() {
            proxy.kill();
        }
    }
}

/// The status port: 15020 in Istio. `/drain` is only for POST there, which the gate knows.
fn status(shared: &Arc<Shared>) -> std::io::Result<Server> {
    let shared = Arc::clone(shared);
    Server::start(move |request| {
        let is_drain = request.uri().path() == "/drain";
        shared.was_asked.fetch_or(is_drain, Ordering::Relaxed);
        async move { Ok(server::json(if is_drain { 405 } else { 404 }, "\n".into())) }
    })
}

impl Shared {
    fn end(&self) {
        let (Some(clock), Some(proxy)) = (self.clock.get(), self.proxy.get()) else { return };
        // An Envoy that does not answer has nothing to drain.
        let _ = proxy.admin().request(Method::POST, "/drain_listeners?graceful");
        let drain_ends = clock.now() + self.lane.drain_time(&self.times);
        clock.until(|| proxy.has_ended() || clock.now() >= drain_ends);
        if self.lane != Lane::ExitOnZero {
            return self.kill(EndedBy::DrainTime);
        }
        while !clock.is_over() && !proxy.has_ended() {
            let connections = self.ask_connections();
            // An Envoy that was killed meanwhile answers no more.
            if let (Some(_), Ok(mut count)) = (connections, self.connections.lock()) {
                *count = connections;
            }
            if connections == Some(0) {
                return self.kill(EndedBy::ZeroConnections);
            }
            clock.pause(self.times.poll);
        }
    }

    /// The connections as the agent counts them: the sum over all listeners except Istio's own.
    fn ask_connections(&self) -> Option<u64> {
        let reply =
            self.proxy.get()?.admin().get("/stats?usedonly&filter=downstream_cx_active$").ok()?;
        let listeners = reply
            .body
            .lines()
            .filter(|line| line.starts_with("listener.") && !line.starts_with("listener.admin."));
        // Each worker also has a separate gauge, whose name contains `.worker_`.
        let sums = listeners
            .filter(|line| !line.contains(".worker_"))
            .filter_map(|line| line.rsplit_once(": "));
        Some(sums.filter_map(|(_, value)| value.trim().parse::<u64>().ok()).sum())
    }

    fn kill(&self, ended_by: EndedBy) {
        if let Some(proxy) = self.proxy.get().filter(|proxy| !proxy.has_ended()) {
            self.ended_by.get_or_init(|| ended_by);
            proxy.kill();
        }
    }
}
