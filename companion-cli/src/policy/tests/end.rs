//! Kinds of streams that are ended or exempt.

use serde_json::{Value, json};

use super::read;
use crate::policy::file::LongLived;
use crate::policy::module_json;

fn rendered(section: &str) -> (Value, Value) {
    let text = format!("module: /m.wasm\nnamespace: n\n{section}\n");
    let policy = read(&text).expect(&text);
    let stream = module_json::stream(&policy, "gateway", false);
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

#[test]
fn contradictions_name_the_way_out() {
    for (section, message) in [
        ("end: {waiting: exempt}", "end.waiting: `exempt` is for websocket, grpc"),
        ("end: {websocket: close}", "unknown variant `close`"),
        (
            "drain: {long_lived: wait}\nend: {grpc: exempt}",
            "`wait` contradicts `end`, which exempts grpc",
        ),
        (
            "count: {long_lived: {upgrades: true}}\nend: {event_stream: exempt}",
            "write `drain.long_lived: exempt` if that is meant",
        ),
        (
            "count: {long_lived: {upgrades: true}}\ndrain: {long_lived: exempt}\n\
             end: {websocket: end}",
            "end.websocket: `end` contradicts `count.long_lived.upgrades`",
        ),
        ("end: {waiting: end, before_deadline: 1h}", "end.before_deadline: 3600000 begins before"),
        ("end: {waiting: end, over: 1s}", "end.over: 1000 leaves no time"),
        ("end: {at_age: 1h, before_deadline: 5s}", "keep one"),
        ("end: {retry_after: {from: 9s, to: 1s}}", "end.retry_after: begins at 9 and ends at 1"),
        ("gate: {enabled: false}\nend: {waiting: end}", "end: is the gate's, and there is none"),
    ] {
        let text = format!("module: /m.wasm\nnamespace: n\n{section}\n");
        let refused = read(&text).expect_err(&text);
        assert!(refused.contains(message), "{section}: {refused}");
    }
}
