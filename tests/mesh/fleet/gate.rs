//! Stands in for the gates of pods: KWOK forwards a port of all pods to one of these.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use serde_json::json;

use kit::Outcome;
use kit::fake_server::{Answer, FakeServer};

/// A gate that drains, and holds so many streams.
pub(super) struct Gate {
    /// On which pods have it.
    pub(super) port: u16,
    server: FakeServer,
    /// Since when.
    holding: Arc<Mutex<(u64, Instant)>>,
}

impl Gate {
    pub(super) fn start(port: u16, holding: u64) -> Outcome<Self> {
        let holding = Arc::new(Mutex::new((holding, Instant::now())));
        let server = FakeServer::start({
            let holding = Arc::clone(&holding);
            move |asked, _| Ok(answer(asked.path(), *locked(&holding)))
        })?;
        Ok(Self { port, server, holding })
    }

    pub(super) fn address(&self) -> SocketAddr {
        self.server.address
    }

    pub(super) fn hold(&self, streams: u64) {
        *locked(&self.holding) = (streams, Instant::now());
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn answer(path: &str, (holding, since): (u64, Instant)) -> Answer {
    let quiet = if holding == 0 { since.elapsed().as_millis() as u64 } else { 0 };
    let state = if holding == 0 { "drained" } else { "draining" };
    let stream = json!({
        "scope": "inbound", "age_ms": 9_000, "protocol": "HTTP/1.1", "request": "GET /export",
    });
    let said = match path {
        "/status" => json!({
            "state": state, "reason": "a stand-in", "count": "exact", "holding": holding,
            "scopes": [{ "scope": "inbound", "in_flight": holding, "begun": 9 }],
            "counters": 1, "quiet_ms": quiet, "draining_ms": 7_000, "deadline_in_ms": 13_000,
            "version": "0.1.0",
        }),
        "/streams" => json!({
            "state": state, "holding": holding, "complete": true,
            "streams": (0..holding).map(|_| stream.clone()).collect::<Vec<_>>(),
        }),
        _ => return Answer::new(404),
    };
    Answer::new(200).with("content-type", "application/json").body(said.to_string())
}
