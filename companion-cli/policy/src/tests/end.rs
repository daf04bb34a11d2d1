//! Kinds of streams that are ended or exempt.

use laststream_filter::config::wire::Scope;
use serde_json::{Value, json};

use super::read;
use crate::file::LongLived;
use crate::module_json;

fn rendered(section: &str) -> (Value, Value) {
    let text = format!("module: /m.wasm\nnamespace: n\n{section}\n");
    let policy = read(&text).expect(&text);
    let stream = module_json::stream(&policy, Scope::Gateway, false);
    (stream["count"].clone(), module_json::gate(&policy)["gate"].clone())
}

#[test]
fn ends_are_rendered_for_counters_and_gate() {
    let (count, gate) = rendered(
        "end: {websocket: end, waiting: end, grpc: wait, over: 10s, before_deadline: 15s,\n\
         \x20 retry_after: {from: 2s, to: 30s}, websocket_grace: 1s, changing: true}",
    );
    assert_eq!(count, json!({ "kinds": true }));
    let expected = json!({
        "waiting": "end", "websocket": "end", "over_ms": 10_000, "before_deadline_ms": 15_000,
        "websocket_grace_ms": 1_000, "changing": true, "retry_after_s": { "from": 2, "to": 30 }
    });
    assert_eq!((&gate["end"], gate.get("long_lived")), (&expected, None));
    let (count, gate) = rendered("");
    assert!(count.is_null() && gate.get("end").is_none(), "{count} {gate}");
    let (count, gate) = rendered("end: {}");
    assert_eq!((count, gate.get("end")), (json!({ "kinds": true }), None));
}

#[test]
fn exempt_kinds_do_not_hold_the_drain() {
    let (count, gate) = rendered("end: {event_stream: exempt, websocket: end}");
    assert_eq!(count, json!({ "kinds": true, "long_lived": { "event_streams": true } }));
    assert_eq!(gate["long_lived"], "exempt");
    assert_eq!(gate["end"], json!({ "websocket": "end" }));
    let text = "module: /m.wasm\nnamespace: n\ndrain: {long_lived: exempt}\n\
                count: {long_lived: {grpc: true}}\nend: {event_stream: exempt}\n";
    assert_eq!(read(text).expect(text).long_lived, LongLived::Exempt);
}
