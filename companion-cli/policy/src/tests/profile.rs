//! Profiles: what they give, and what they leave as it is written.

use super::read;

#[test]
fn a_field_that_is_written_wins_over_the_profile() {
    const LONGEST: &str = "drain.longest_request: 300s";
    const TIMES: &str = "drain.longest_request: 300s, end.before_deadline: 120s, end.over: 50s";
    const ENDS: &str = "end.websocket: end, end.event_stream: end";
    for (more, given) in [
        ("", format!("{TIMES}, {ENDS}")),
        ("drain: {grace_period: 20s}", ENDS.to_owned()),
        ("drain: {longest_request: 10s, quiet: 2s}", ENDS.to_owned()),
        ("drain: {long_lived: exempt}", TIMES.to_owned()),
        (
            "end: {event_stream: wait, over: 5s, at_age: 1h}",
            format!("{LONGEST}, end.websocket: end"),
        ),
        ("placement: {envoy: {}}", format!("stream_idle: 3600s, {TIMES}, {ENDS}")),
        ("placement: {envoy: {}}\nstream_idle: 0s", format!("{TIMES}, {ENDS}")),
        ("placement: {waypoint: {gateway: w}}\nmodule: /a.wasm", format!("{TIMES}, {ENDS}")),
    ] {
        let text = format!("namespace: a\nprofile: streaming\n{more}\n");
        assert_eq!(read(&text).expect(&text).given.join(", "), given, "{more}");
    }
    assert_eq!(read("namespace: a").expect("a policy").given, Vec::<String>::new());
}
