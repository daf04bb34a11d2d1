//! A stand-in for the gates of pods. KWOK forwards one port of every pod to it.

use std::net::SocketAddr;

use serde_json::json;

use kit::Outcome;
use kit::fake_server::{Answer, FakeServer};

/// A gate that drains while `holding` streams are in flight.
pub(super) struct Gate {
    /// The port of the gate on every pod.
    pub(super) port: u16,
    server: FakeServer,
}

impl Gate {
    pub(super) fn start(port: u16, holding: u64) -> Outcome<Self> {
        let server = FakeServer::start(move |asked, _| Ok(answer(asked.path(), holding)))?;
        Ok(Self { port, server })
    }

    pub(super) fn address(&self) -> SocketAddr {
        self.server.address
    }
}

fn answer(path: &str, holding: u64) -> Answer {
    let state = "draining";
    let stream = json!({
        "scope": "inbound", "age_ms": 9_000, "protocol": "HTTP/1.1", "request": "GET /export",
    });
    let said = match path {
        "/status" => json!({
            "state": state, "reason": "a stand-in", "count": "exact", "holding": holding,
            "scopes": [{ "scope": "inbound", "in_flight": holding, "begun": 9 }],
            "counters": 1, "quiet_ms": 0, "draining_ms": 7_000, "deadline_in_ms": 13_000,
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
