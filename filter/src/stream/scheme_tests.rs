//! Whole requests through a policy, with and without headers in [`crate::forwarded::PeerInfo`].

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
fn a_trusted_peer_decides() {
    for (original, becomes, expected) in [
        ("https", "https", "overridden"),
        ("HTTPS ", "https", "overridden"),
        ("wss", "https", "overridden"),
        ("http", "http", "kept"),
        ("https, https", "https", "overridden"),
        ("http,https", "http", "conflicting"),
        ("gopher", "http", "conflicting"),
        ("", "http", "silent"),
        (" , ", "http", "silent"),
    ] {
        let host = from(
            "10.1.2.3",
            &[("x-forwarded-proto", "http"), ("x-laststream-forwarded-proto", original)],
        );
        assert_eq!(verdict(&host, GCP), expected, "{original}");
        assert_eq!(host.header("x-forwarded-proto").as_deref(), Some(becomes), "{original}");
    }
}

#[wasm_bindgen_test(unsupported = test)]
fn an_untrusted_peer_never_becomes_https() {
    for peer in ["192.0.2.1", "", "10.1.2.3:80", "not an address"] {
        let host = from(
            peer,
            &[("x-forwarded-proto", "https"), ("x-laststream-forwarded-proto", "https")],
        );
        assert_eq!(verdict(&host, GCP), "untrusted", "{peer}");
        assert_eq!(host.header("x-forwarded-proto").as_deref(), Some("http"), "{peer}");
    }
}

#[wasm_bindgen_test(unsupported = test)]
fn an_untrusted_peer_over_tls_is_https() {
    let host = from("192.0.2.1", &[("x-forwarded-proto", "http")]);
    host.properties.borrow_mut().insert("connection/tls_version", "TLSv1.3");
    assert_eq!(verdict(&host, GCP), "untrusted");
    assert_eq!(host.header("x-forwarded-proto").as_deref(), Some("https"));
}

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
fn an_identity_is_enough() {
    for (uri, expected) in [
        ("spiffe://mesh/ns/edge/sa/gate", "overridden"),
        ("spiffe://mesh/ns/edge2/sa/gate", "untrusted"),
        ("spiffe://mesh/ns/a/sa/b", "overridden"),
        ("spiffe://mesh/ns/a/sa/bc", "untrusted"),
    ] {
        let host = from(
            "192.0.2.1",
            &[("x-forwarded-proto", "http"), ("x-laststream-forwarded-proto", "https")],
        );
        host.properties.borrow_mut().insert("connection/uri_san_peer_certificate", uri);
        let text = r#"{"forwarded_proto": {
            "trust": {
                "peers": ["10.0.0.0/8"],
                "identities": [
                    {"prefix": "spiffe://mesh/ns/edge/"},
                    {"exact": "spiffe://mesh/ns/a/sa/b"}
                ]
            },
            "presets": ["gcp"], "fallback": "keep"
        }}"#;
        let plugin = configured(&host, text);
        Stream::new(Rc::new(plugin)).on_request_headers(&host);
        assert_eq!(host.metric_of(expected), 1, "{uri}");
    }
}

#[wasm_bindgen_test(unsupported = test)]
fn several_sources_agree_or_the_first_decides() {
    let alb = r#""presets": ["aws_alb"]"#;
    let first = r#""presets": ["aws_alb"], "decision": "first""#;
    for (original, port, agreed, decided) in [
        ("https", "443", "overridden", "overridden"),
        ("https", "8443", "overridden", "overridden"),
        ("https", "80", "conflicting", "overridden"),
        ("http", "443", "conflicting", "kept"),
        ("", "443", "overridden", "overridden"),
        ("junk", "443", "conflicting", "conflicting"),
        ("https", "+443", "conflicting", "overridden"),
        ("https", "00443", "conflicting", "overridden"),
        ("", "0443", "conflicting", "conflicting"),
        ("", "443\r", "conflicting", "conflicting"),
        ("", "", "silent", "silent"),
    ] {
        let headers = [
            ("x-forwarded-proto", "http"),
            ("x-laststream-forwarded-proto", original),
            ("x-forwarded-port", port),
        ];
        assert_eq!(verdict(&from("10.0.0.1", &headers), alb), agreed, "{original} {port}");
        assert_eq!(verdict(&from("10.0.0.1", &headers), first), decided, "{original} {port}");
    }
}

#[wasm_bindgen_test(unsupported = test)]
fn the_destination_port_decides_behind_a_layer_4_load_balancer() {
    const NLB: &str = r#""presets": ["nlb"]"#;
    for (peer, expected, becomes) in [
        ("10.0.0.1 192.0.2.1:443 10.9.9.9:8443", "overridden", "https"),
        ("10.0.0.1 [2001:db8::1]:443 10.9.9.9:8443", "overridden", "https"),
        ("10.0.0.1 192.0.2.1:80 10.9.9.9:443", "kept", "http"),
        ("10.0.0.1 192.0.2.1:8080 10.9.9.9:443", "silent", "http"),
        ("10.0.0.1 10.9.9.9:443 10.9.9.9:443", "silent", "http"),
        ("10.0.0.1 [::ffff:10.9.9.9]:443 10.9.9.9:443", "silent", "http"),
        ("10.0.0.1 - 10.9.9.9:443", "silent", "http"),
        ("10.0.0.1", "silent", "http"),
        ("192.0.2.9 192.0.2.1:443 10.9.9.9:8443", "untrusted", "http"),
        ("192.0.2.9 10.0.0.1:443 10.0.0.1:8443", "untrusted", "http"),
        ("10.0.0.1 192.0.2.1:443 10.9.9.9:8443 10.0.0.1", "untrusted", "http"),
    ] {
        // Clients can write all of these headers, so they must not matter.
        let host = from(
            peer,
            &[
                ("x-forwarded-proto", "http"),
                ("x-laststream-forwarded-proto", "https"),
                ("x-forwarded-port", "443"),
                ("forwarded", "proto=https"),
            ],
        );
        assert_eq!(verdict(&host, NLB), expected, "{peer}");
        assert_eq!(host.header("x-forwarded-proto").as_deref(), Some(becomes), "{peer}");
        let has_addresses = peer.split(' ').count() == 3;
        let warned = host.lines.borrow().iter().any(|line| line.contains("DIRECT_LOCAL_ADDRESS"));
        assert_eq!(warned, !has_addresses, "{peer}");
    }
}

#[wasm_bindgen_test(unsupported = test)]
fn a_connection_without_a_destination_port_gets_the_silent_value() {
    for (silent, becomes) in [("http", "http"), ("connection", "https")] {
        let host = from("10.0.0.1 10.9.9.9:443 10.9.9.9:443", &[("x-forwarded-proto", "http")]);
        host.properties.borrow_mut().insert("connection/tls_version", "TLSv1.3");
        let policy = format!(r#""presets": ["nlb"], "silent": "{silent}""#);
        assert_eq!(verdict(&host, &policy), "silent");
        assert_eq!(host.header("x-forwarded-proto").as_deref(), Some(becomes), "{silent}");
    }
}

#[wasm_bindgen_test(unsupported = test)]
fn the_element_of_a_list_can_be_chosen() {
    for (element, lines, becomes) in [
        ("first", ["https, http", "http"], "https"),
        ("last", ["https, http", "https,"], "https"),
        ("last", ["https, https", "http"], "http"),
        ("agree", ["https, https", "https"], "https"),
        ("agree", ["https", "http"], "http"),
    ] {
        let headers = [("x-forwarded-proto", "http"), ("x-edge", lines[0]), ("x-edge", lines[1])];
        let host = from("10.0.0.1", &headers);
        verdict(&host, &format!(r#""sources": [{{"header": "X-Edge", "element": "{element}"}}]"#));
        assert_eq!(
            host.header("x-forwarded-proto").as_deref(),
            Some(becomes),
            "{element} {lines:?}"
        );
    }
}

#[wasm_bindgen_test(unsupported = test)]
fn every_form_of_header_is_read() {
    for (header, value, expected) in [
        ("forwarded", "for=1.2.3.4;proto=https", "overridden"),
        ("forwarded", "for=1.2.3.4", "silent"),
        ("forwarded", "proto=https, for=\"", "conflicting"),
        ("cf-visitor", r#"{"scheme":"https"}"#, "overridden"),
        ("cf-visitor", r#"{"scheme":"https""#, "conflicting"),
        ("cloudfront-forwarded-proto", "https", "overridden"),
        ("x-forwarded-ssl", "On", "overridden"),
        ("x-forwarded-ssl", "off", "kept"),
        ("front-end-https", "perhaps", "conflicting"),
        ("fastly-ssl", "1", "overridden"),
        ("x-arr-ssl", "2048|256|C=US, O=x", "overridden"),
        ("x-arr-ssl", "", "silent"),
        ("x-forwarded-scheme", "https", "overridden"),
        ("x-url-scheme", "https", "overridden"),
        ("x-forwarded-port", "443", "overridden"),
    ] {
        let host = from("10.0.0.1", &[("x-forwarded-proto", "http"), (header, value)]);
        assert_eq!(
            verdict(&host, &format!(r#""sources": [{{"header": "{header}"}}]"#)),
            expected,
            "{header}: {value}"
        );
    }
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
fn scheme_and_port_follow_on_request() {
    let all = r#""presets": ["gcp"], "write_scheme": true, "write_port": true"#;
    for (port, written) in [
        ("80", "443"),
        ("", "443"),
        ("x", "443"),
        ("8443", "8443"),
        ("443", "443"),
        ("443,80", "443"),
    ] {
        let headers = [
            (":scheme", "http"),
            ("x-forwarded-proto", "http"),
            ("x-laststream-forwarded-proto", "https"),
            ("x-forwarded-port", port),
        ];
        let host = from("10.0.0.1", &headers);
        assert_eq!(verdict(&host, all), "overridden");
        assert_eq!(host.header(":scheme").as_deref(), Some("https"));
        assert_eq!(host.header("x-forwarded-port").as_deref(), Some(written), "{port}");
    }
}

const FORGEABLE: [(&str, &str); 9] = [
    ("x-forwarded-proto", "http"),
    ("x-forwarded-port", "443"),
    ("x-forwarded-ssl", "on"),
    ("x_forwarded_proto", "https"),
    ("x-forwarded_proto", "https"),
    ("x_forwarded_for", "1.2.3.4"),
    ("x-edge", "https"),
    ("x_edge", "https"),
    ("front_end_https", "on"),
];

#[wasm_bindgen_test(unsupported = test)]
fn forgeable_headers_are_removed() {
    let all = FORGEABLE.map(|(name, _)| name).join(" ");
    let trusted = "x-forwarded-port x-forwarded-ssl x_forwarded_proto x-forwarded_proto \
        x_forwarded_for x-edge x_edge front_end_https x-forwarded-proto";
    for (peer, strip, left) in [
        ("192.0.2.1", "{}", &*all),
        (
            "192.0.2.1",
            r#"{"untrusted": true}"#,
            "x-forwarded-proto x-forwarded-port x_forwarded_for",
        ),
        (
            "192.0.2.1",
            r#"{"twins": true}"#,
            "x-forwarded-proto x-forwarded-port x-forwarded-ssl x_forwarded_for x-edge",
        ),
        ("10.0.0.1", r#"{"untrusted": true}"#, trusted),
        (
            "10.0.0.1",
            r#"{"twins": true}"#,
            "x-forwarded-port x-forwarded-ssl x_forwarded_for x-edge x-forwarded-proto",
        ),
    ] {
        let host = from(peer, &FORGEABLE);
        let sources = r#""sources": [{"header": "x-edge"}], "fallback": "keep""#;
        verdict(&host, &format!(r#"{sources}, "strip": {strip}"#));
        let names: Vec<_> = host.headers.borrow().iter().map(|(name, _)| name.clone()).collect();
        assert_eq!(names.join(" "), left, "{peer} {strip}");
    }
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
