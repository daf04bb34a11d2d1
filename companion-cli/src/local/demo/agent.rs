//! A model of Istio's pilot-agent around a real Envoy: what it does at SIGTERM, as read in its source and measured on the real one.
//!
//! Like the agent it listens on a status port until SIGTERM. `POST /drain` there makes Envoy's listeners drain, and lets the agent end
//! Envoy at once when SIGTERM comes; otherwise it drains them then, and waits: for a fixed time, or with EXIT_ON_ZERO_ACTIVE_CONNECTIONS
//! until Envoy has no connection left. Then it kills Envoy.

use std::io::BufReader;
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;

use super::clock::{Clock, GRAIN};
use super::error::Error;
use super::http;
use super::kubelet::Container;
use super::proxy::Proxy;
use super::times::Times;

/// When it ends Envoy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Exit {
    /// `terminationDrainDuration` after SIGTERM.
    AfterDrainTime,
    /// EXIT_ON_ZERO_ACTIVE_CONNECTIONS.
    OnZeroConnections,
}

/// Why Envoy was ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Reason {
    DrainTime,
    ZeroConnections,
    Drained,
    Sigkill,
}

pub(super) struct Agent {
    shared: Arc<Shared>,
    port: u16,
}

struct Shared {
    exit: Exit,
    times: Times,
    proxy: Mutex<Option<Arc<Proxy>>>,
    drained: AtomicBool,
    terminated: AtomicBool,
    reason: Mutex<Option<Reason>>,
    connections: Mutex<Option<u64>>,
    clock: Mutex<Option<Clock>>,
}

impl Agent {
    /// Its port is there before its Envoy is, whose configuration names it.
    pub(super) fn start(exit: Exit, times: &Times) -> Result<Self, Error> {
        let (listener, port) = http::listen().map_err(|error| Error::Listen { error })?;
        let shared = Arc::new(Shared {
            exit,
            times: *times,
            proxy: Mutex::default(),
            drained: AtomicBool::new(false),
            terminated: AtomicBool::new(false),
            reason: Mutex::default(),
            connections: Mutex::default(),
            clock: Mutex::default(),
        });
        let status = Arc::clone(&shared);
        thread::spawn(move || status.serve(&listener));
        Ok(Self { shared, port })
    }

    pub(super) fn port(&self) -> u16 {
        self.port
    }

    pub(super) fn adopt(&self, proxy: Arc<Proxy>) {
        put(&self.shared.proxy, proxy);
    }

    /// From here on SIGTERM may come.
    pub(super) fn wind(&self, clock: &Clock) {
        put(&self.shared.clock, clock.clone());
    }

    pub(super) fn is_listening(&self) -> bool {
        !self.shared.terminated.load(Ordering::SeqCst)
    }

    /// Why it ended Envoy, if it did.
    pub(super) fn reason(&self) -> Option<Reason> {
        get(&self.shared.reason)
    }

    /// What it saw when it last asked for connections.
    pub(super) fn connections(&self) -> Option<u64> {
        get(&self.shared.connections)
    }
}

impl Container for Agent {
    fn terminate(&self) {
        self.shared.terminated.store(true, Ordering::SeqCst);
        let shared = Arc::clone(&self.shared);
        thread::spawn(move || shared.end());
    }

    fn kill(&self) {
        self.shared.terminated.store(true, Ordering::SeqCst);
        self.shared.kill(Reason::Sigkill);
    }

    fn has_ended(&self) -> bool {
        get(&self.shared.proxy).is_none_or(|proxy| proxy.has_ended())
    }
}

impl Drop for Agent {
    /// Its threads may still hold the Envoy for a moment; it ends now.
    fn drop(&mut self) {
        self.shared.terminated.store(true, Ordering::SeqCst);
        if let Some(proxy) = get(&self.shared.proxy) {
            proxy.kill();
        }
    }
}

impl Shared {
    /// The status port: 15020 in Istio.
    fn serve(&self, listener: &TcpListener) {
        while !self.terminated.load(Ordering::SeqCst) {
            match listener.accept() {
                Ok((stream, _)) => self.talk(&stream),
                Err(_) => thread::sleep(GRAIN),
            }
        }
    }

    fn talk(&self, stream: &TcpStream) {
        let ready = stream.set_nonblocking(false).and_then(|()| stream.set_read_timeout(Some(GRAIN * 50)));
        let Ok(request) = ready.and_then(|()| http::request(&mut BufReader::new(stream))) else { return };
        let mut writer = stream;
        let is_drain = request.method == "POST" && request.path == "/drain";
        if is_drain {
            self.drain("/drain_listeners?graceful&skip_exit");
            self.drained.store(true, Ordering::SeqCst);
        }
        // Whoever does not hear it asks again.
        let _ = http::answer(&mut writer, if is_drain { 200 } else { 404 }, "\n", true);
    }

    fn drain(&self, path: &str) {
        if let Some(proxy) = get(&self.proxy) {
            // An Envoy that cannot be asked any more has nothing to drain.
            let _ = proxy.admin("POST", path);
        }
    }

    fn end(&self) {
        let Some(clock) = get(&self.clock) else { return };
        if self.drained.load(Ordering::SeqCst) {
            return self.kill(Reason::Drained);
        }
        self.drain("/drain_listeners?graceful");
        clock.pause(self.times.agent);
        if self.exit == Exit::AfterDrainTime {
            return self.kill(Reason::DrainTime);
        }
        while !clock.is_over() && get(&self.proxy).is_some_and(|proxy| !proxy.has_ended()) {
            let connections = self.ask_connections();
            put_or_clear(&self.connections, connections);
            if connections == Some(0) {
                return self.kill(Reason::ZeroConnections);
            }
            clock.pause(self.times.poll);
        }
    }

    /// As the agent counts: the sum over all listeners but those of Istio's own.
    fn ask_connections(&self) -> Option<u64> {
        let reply = get(&self.proxy)?.admin("GET", "/stats?usedonly&filter=downstream_cx_active$").ok()?;
        let text = reply.text();
        let listeners = text.lines().filter(|line| line.starts_with("listener.") && !line.starts_with("listener.admin."));
        // Each worker has a gauge of the same name with itself in it.
        let sums = listeners.filter(|line| !line.contains(".worker_")).filter_map(|line| line.rsplit_once(": "));
        Some(sums.filter_map(|(_, value)| value.trim().parse::<u64>().ok()).sum())
    }

    fn kill(&self, reason: Reason) {
        if let Some(proxy) = get(&self.proxy).filter(|proxy| !proxy.has_ended()) {
            if let Ok(mut known) = self.reason.lock() {
                known.get_or_insert(reason);
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
