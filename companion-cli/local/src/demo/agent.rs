//! A model of Istio's pilot-agent around a real Envoy: its behaviour at SIGTERM, as read in its
//! source and measured on the real agent. It is the same in a classic and in a native sidecar.
//!
//! Like the agent, the model listens on a status port until SIGTERM. `POST /drain` there drains
//! Envoy's listeners, and makes the agent kill Envoy at once at SIGTERM. Otherwise the agent drains
//! the listeners at SIGTERM, waits for a fixed time, or with EXIT_ON_ZERO_ACTIVE_CONNECTIONS until
//! Envoy has no connection left, and kills Envoy.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::thread;

use http::Method;

use super::clock::Clock;
use super::container::Container;
use super::lane::EndedBy;
use super::proxy::Proxy;
use super::times::Times;
use crate::server::{self, LISTEN, Server};
use laststream_base::causes::Context as _;

pub(super) struct Agent {
    shared: Arc<Shared>,
    status: Server,
}

struct Shared {
    exits_on_zero: bool,
    times: Times,
    proxy: OnceLock<Arc<Proxy>>,
    drained: AtomicBool,
    ended_by: OnceLock<EndedBy>,
    connections: Mutex<Option<u64>>,
    clock: OnceLock<Clock>,
}

impl Agent {
    /// Opens the status port before Envoy starts, because Envoy's configuration names the port.
    pub(super) fn start(exits_on_zero: bool, times: &Times) -> Result<Self, String> {
        let shared = Arc::new(Shared {
            exits_on_zero,
            times: *times,
            proxy: OnceLock::new(),
            drained: AtomicBool::new(false),
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
}

impl Container for Agent {
    fn terminate(&self) {
        self.status.kill();
        let shared = Arc::clone(&self.shared);
        thread::spawn(move || shared.end());
    }

    fn kill(&self) {
        self.status.kill();
        self.shared.kill(EndedBy::Sigkill);
    }

    fn has_ended(&self) -> bool {
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

/// The status port: 15020 in Istio.
fn status(shared: &Arc<Shared>) -> std::io::Result<Server> {
    let shared = Arc::clone(shared);
    Server::start(move |request| {
        let shared = Arc::clone(&shared);
        async move {
            let is_drain = request.method() == Method::POST && request.uri().path() == "/drain";
            if is_drain {
                let draining = Arc::clone(&shared);
                // Asking Envoy blocks. The task fails only by a panic, and then there is nothing to
                // drain.
                let _ = tokio::task::spawn_blocking(move || {
                    draining.drain("/drain_listeners?graceful&skip_exit")
                })
                .await;
                shared.drained.store(true, Ordering::SeqCst);
            }
            Ok(server::json(if is_drain { 200 } else { 404 }, "\n".into()))
        }
    })
}

impl Shared {
    fn drain(&self, path: &str) {
        if let Some(proxy) = self.proxy.get() {
            // An Envoy that cannot be asked any more has nothing to drain.
            let _ = proxy.admin().request(Method::POST, path);
        }
    }

    fn end(&self) {
        let Some(clock) = self.clock.get() else { return };
        if self.drained.load(Ordering::SeqCst) {
            return self.kill(EndedBy::Drained);
        }
        self.drain("/drain_listeners?graceful");
        clock.pause(self.times.agent);
        if !self.exits_on_zero {
            return self.kill(EndedBy::DrainTime);
        }
        while !clock.is_over() && self.proxy.get().is_some_and(|proxy| !proxy.has_ended()) {
            let connections = self.ask_connections();
            if let Ok(mut count) = self.connections.lock() {
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
