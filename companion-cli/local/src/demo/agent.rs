//! A model of Istio's pilot-agent around a real Envoy: its behaviour at SIGTERM, as read in its
//! source and measured on the real agent. It is the same in a classic and in a native sidecar.
//!
//! Like the agent, the model listens on a status port until SIGTERM. `POST /drain` there drains
//! Envoy's listeners, and makes the agent kill Envoy at once at SIGTERM. Otherwise the agent drains
//! the listeners at SIGTERM, waits for a fixed time, or with EXIT_ON_ZERO_ACTIVE_CONNECTIONS until
//! Envoy has no connection left, and kills Envoy.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;

use http::Method;

use super::clock::Clock;
use super::container::Container;
use super::error::DemoError;
use super::lane::{AgentExit, EndedBy};
use super::proxy::Proxy;
use super::times::Times;
use crate::server::{self, Server};

pub(super) struct Agent {
    shared: Arc<Shared>,
    status: Server,
}

struct Shared {
    exit: AgentExit,
    times: Times,
    proxy: Mutex<Option<Arc<Proxy>>>,
    drained: AtomicBool,
    ended_by: Mutex<Option<EndedBy>>,
    connections: Mutex<Option<u64>>,
    clock: Mutex<Option<Clock>>,
}

impl Agent {
    /// Opens the status port before Envoy starts, because Envoy's configuration names the port.
    pub(super) fn start(exit: AgentExit, times: &Times) -> Result<Self, DemoError> {
        let shared = Arc::new(Shared {
            exit,
            times: *times,
            proxy: Mutex::default(),
            drained: AtomicBool::new(false),
            ended_by: Mutex::default(),
            connections: Mutex::default(),
            clock: Mutex::default(),
        });
        let status = status(&shared).map_err(|error| DemoError::Listen { error })?;
        Ok(Self { shared, status })
    }

    pub(super) fn port(&self) -> u16 {
        self.status.address().port()
    }

    pub(super) fn attach_proxy(&self, proxy: Arc<Proxy>) {
        put(&self.shared.proxy, proxy);
    }

    /// Starts the clock; from here on SIGTERM may come.
    pub(super) fn start_clock(&self, clock: &Clock) {
        put(&self.shared.clock, clock.clone());
    }

    pub(super) fn is_listening(&self) -> bool {
        !self.status.has_ended()
    }

    /// The reason for Envoy's end, if the agent or kubelet ended it.
    pub(super) fn ended_by(&self) -> Option<EndedBy> {
        get(&self.shared.ended_by)
    }

    /// The number of connections when the agent last asked Envoy.
    pub(super) fn connections(&self) -> Option<u64> {
        get(&self.shared.connections)
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
        get(&self.shared.proxy).is_none_or(|proxy| proxy.has_ended())
    }
}

impl Drop for Agent {
    /// Ends Envoy now, because the agent's threads may still hold it for a moment.
    fn drop(&mut self) {
        if let Some(proxy) = get(&self.shared.proxy) {
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
        if let Some(proxy) = get(&self.proxy) {
            // An Envoy that cannot be asked any more has nothing to drain.
            let _ = proxy.admin().post(path);
        }
    }

    fn end(&self) {
        let Some(clock) = get(&self.clock) else { return };
        if self.drained.load(Ordering::SeqCst) {
            return self.kill(EndedBy::Drained);
        }
        self.drain("/drain_listeners?graceful");
        clock.pause(self.times.agent);
        if self.exit == AgentExit::AfterDrainTime {
            return self.kill(EndedBy::DrainTime);
        }
        while !clock.is_over() && get(&self.proxy).is_some_and(|proxy| !proxy.has_ended()) {
            let connections = self.ask_connections();
            put_or_clear(&self.connections, connections);
            if connections == Some(0) {
                return self.kill(EndedBy::ZeroConnections);
            }
            clock.pause(self.times.poll);
        }
    }

    /// The connections as the agent counts them: the sum over all listeners except Istio's own.
    fn ask_connections(&self) -> Option<u64> {
        let reply =
            get(&self.proxy)?.admin().get("/stats?usedonly&filter=downstream_cx_active$").ok()?;
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
        if let Some(proxy) = get(&self.proxy).filter(|proxy| !proxy.has_ended()) {
            if let Ok(mut known) = self.ended_by.lock() {
                known.get_or_insert(ended_by);
            }
            proxy.kill();
        }
    }
}

fn get<T: Clone>(cell: &Mutex<Option<T>>) -> Option<T> {
    cell.lock().ok().and_then(|value| value.clone())
}

fn put<T>(cell: &Mutex<Option<T>>, value: T) {
    put_or_clear(cell, Some(value));
}

fn put_or_clear<T>(cell: &Mutex<Option<T>>, value: Option<T>) {
    if let Ok(mut cell) = cell.lock() {
        *cell = value;
    }
}
