//! What a policy costs, and what it writes into the log. Its results are the rows of
//! tests/cases/forwarded_proto, on a real Envoy, and a property of any request.

use std::rc::Rc;

use wasm_bindgen_test::wasm_bindgen_test;

use crate::fake::Fake;
use crate::stream::{Plugin, Stream};

fn configured(host: &Fake, text: &str) -> Plugin {
    Plugin::new(host, crate::config::parse(text.as_bytes()).expect(text)).expect(text)
}

/// Runs one request through a policy for peers in 10.0.0.0/8, and returns the verdict.
fn verdict(host: &Fake, policy: &str) -> String {
    let text =
        format!(r#"{{"forwarded_proto": {{"trust": {{"peers": ["10.0.0.0/8"]}}, {policy}}}}}"#);
    let plugin = configured(host, &text);
    let with_peer_info = with_peer_info(host);
    Stream::new(Rc::new(plugin)).on_request_headers(host);
    let plugin = configured(&with_peer_info, &text);
    Stream::new(Rc::new(plugin)).on_request_headers(&with_peer_info);
    assert_eq!(counted(&with_peer_info), counted(host), "with all of PeerInfo");
    assert_eq!(*with_peer_info.headers.borrow(), *host.headers.borrow(), "with all of PeerInfo");
    counted(host)
}

fn counted(host: &Fake) -> String {
    let verdicts = ["overridden", "kept", "conflicting", "silent", "untrusted"];
    let counted: Vec<_> =
        verdicts.into_iter().filter(|verdict| host.metric_of(verdict) > 0).collect();
    counted.join(" and ")
}

/// A copy of the request, with the headers in [`crate::forwarded::PeerInfo`].
fn with_peer_info(host: &Fake) -> Fake {
    let header = |name: &str| host.header(name).unwrap_or_default();
    let headers =
        ["x-forwarded-proto", "x-laststream-forwarded-proto", "x-forwarded-port"].map(header);
    let fake = Fake::default();
    fake.headers.replace(host.headers.borrow().clone());
    let mut properties = host.properties.borrow().clone();
    if let Some(peer) = properties.get_mut(PEER) {
        *peer = Box::leak([*peer, "\n", &headers.join("\n")].concat().into_boxed_str());
    }
    fake.properties.replace(properties);
    fake
}

const PEER: &str = "filter_state/laststream.direct_peer";

fn from(peer: &'static str, headers: &[(&str, &str)]) -> Fake {
    let host = Fake::with_headers(headers);
    host.properties.borrow_mut().insert(PEER, peer);
    host
}

const GCP: &str = r#""presets": ["gcp"]"#;

#[wasm_bindgen_test(unsupported = test)]
fn warns_once_of_a_missing_peer() {
    let host = Fake::with_headers(&[("x-forwarded-proto", "https")]);
    let text = r#"{"forwarded_proto": {"trust": {"peers": ["0.0.0.0/0"]}, "presets": ["gcp"]}}"#;
    let plugin = Rc::new(configured(&host, text));
    for _ in 0..3 {
        Stream::new(Rc::clone(&plugin)).on_request_headers(&host);
    }
    assert_eq!(host.metric_of("untrusted"), 3);
    assert_eq!(
        host.lines.borrow().iter().filter(|line| line.contains("set_filter_state")).count(),
        1
    );
}

#[wasm_bindgen_test(unsupported = test)]
fn headers_that_are_already_right_are_not_written() {
    let all = r#""presets": ["gcp"], "write_scheme": true, "write_port": true,
        "strip": {"untrusted": true, "twins": true}"#;
    let headers = [
        (":scheme", "https"),
        ("x-forwarded-proto", "https"),
        ("x-laststream-forwarded-proto", "https"),
        ("x-forwarded-port", "443"),
        ("x_other", "1"),
    ];
    let host = from("10.0.0.1", &headers);
    assert_eq!(verdict(&host, all), "kept");
    assert_eq!(host.writes.get(), 0);
}

#[wasm_bindgen_test(unsupported = test)]
fn costs_no_more_reads_than_needed() {
    let untrusted = from("192.0.2.1", &[("x-forwarded-proto", "http")]);
    verdict(&untrusted, r#""presets": ["gcp"], "fallback": "keep""#);
    assert_eq!(untrusted.reads.get(), 1, "the peer");
    let trusted = from(
        "10.0.0.1",
        &[("x-forwarded-proto", "http"), ("x-laststream-forwarded-proto", "https")],
    );
    verdict(&trusted, r#""presets": ["gcp"]"#);
    assert_eq!(
        (trusted.reads.get(), trusted.writes.get()),
        (2, 1),
        "the peer, and all headers at once"
    );
    for (policy, reads) in [
        (GCP, 1),
        (r#""presets": ["cloudflare"]"#, 2),
        (r#""presets": ["gcp"], "strip": {"twins": true}"#, 2),
    ] {
        let host = with_peer_info(&from(
            "10.0.0.1",
            &[("x-forwarded-proto", "http"), ("x-laststream-forwarded-proto", "https")],
        ));
        let text =
            format!(r#"{{"forwarded_proto": {{"trust": {{"peers": ["10.0.0.0/8"]}}, {policy}}}}}"#);
        Stream::new(Rc::new(configured(&host, &text))).on_request_headers(&host);
        assert_eq!((host.reads.get(), host.writes.get()), (reads, 1), "{policy}");
    }
}
