//! A stand-in for the gates of pods. KWOK forwards one port of every pod to it.

use serde_json::json;

use kit::Outcome;
use kit::fake_server::{Answer, FakeServer};

/// Starts a gate that drains while `holding` streams are in flight.
pub(super) fn start(holding: u64) -> Outcome<FakeServer> {
    FakeServer::start(move |asked, _| Ok(answer(asked.path(), holding)))
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
