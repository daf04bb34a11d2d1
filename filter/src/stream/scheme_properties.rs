//! Any request through any policy: no untrusted peer makes https without TLS, only necessary edits
//! are made, and the counts are zero in the end.

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;

use crate::fake::Fake;
use crate::lifecycle::Root;

const PROTO: &str = "x-forwarded-proto";
/// Headers that tell the scheme, and are removed if a policy strips untrusted requests.
const FORGEABLE: [&str; 4] = ["forwarded", "cf-visitor", "x_forwarded_proto", "x-forwarded-ssl"];

/// The parts of a policy that matter for its untrusted requests.
#[derive(Clone, Debug)]
struct Any {
    text: String,
    fallback: &'static str,
    strips: bool,
}

fn any_policy() -> impl Strategy<Value = Any> {
    let readers = select(
        &[
            r#""presets": ["gcp"]"#,
            r#""presets": ["aws_alb", "cloudflare"]"#,
            r#""presets": ["nlb"]"#,
            r#""sources": [{"header": "forwarded"}, {"header": "x-a", "element": "first"}]"#,
            r#""sources": [{"header": "x-forwarded-ssl"}], "decision": "first""#,
        ][..],
    );
    let fallback = select(&["connection", "http", "keep"][..]);
    let silent = select(&["connection", "http"][..]);
    (readers, fallback, silent, any::<[bool; 4]>()).prop_map(
        |(readers, fallback, silent, [scheme, port, strips, twins])| Any {
            text: format!(
                r#"{{"forwarded_proto": {{
                    "trust": {{"peers": ["10.0.0.0/8"]}}, {readers},
                    "fallback": "{fallback}", "silent": "{silent}",
                    "write_scheme": {scheme}, "write_port": {port},
                    "strip": {{"untrusted": {strips}, "twins": {twins}}}
                }}}}"#
            ),
            fallback,
            strips,
        },
    )
}

fn any_headers() -> impl Strategy<Value = Vec<(&'static str, &'static str)>> {
    let names = [PROTO, "x-laststream-forwarded-proto", "x-forwarded-port", "x-a", ":scheme"];
    let names: Vec<&str> = names.into_iter().chain(FORGEABLE).collect();
    let values = select(
        &[
            "https",
            "http",
            "HTTPS, http",
            "wss",
            "",
            "443",
            "80",
            "on",
            "proto=https",
            "for=a;proto=\"https",
            r#"{"scheme":"https"}"#,
        ][..],
    );
    vec((select(names), values), 0..8)
}

/// The peer of a policy by headers, and of one by destination ports.
const TRUSTED: [&str; 2] = ["10.0.0.1", "10.0.0.1 192.0.2.1:443 10.9.9.9:8443"];
const STRANGERS: [&str; 4] =
    ["192.0.2.1", "10.0.0.1:80", "192.0.2.9 10.0.0.1:443 10.0.0.1:8443", ""];

/// The state of a request's headers, without their order.
fn headers(host: &Fake) -> Vec<(String, Vec<u8>)> {
    let mut headers = host.headers.borrow().clone();
    headers.sort();
    headers
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    #[test]
    fn untrusted_peers_make_no_https_and_edits_are_necessary(
        policy in any_policy(),
        sent in any_headers(),
        stranger in prop::option::of(select(&STRANGERS[..])),
        has_tls: bool,
    ) {
        let by_port = policy.text.contains("nlb");
        let peer = stranger.unwrap_or(TRUSTED[usize::from(by_port)]);
        let host = Fake::with_headers(&sent);
        host.properties.borrow_mut().insert("filter_state/laststream.direct_peer", peer);
        if has_tls {
            host.properties.borrow_mut().insert("connection/tls_version", "TLSv1.3");
        }
        let mut root = Root::new(1);
        prop_assert!(root.on_configure(&host, policy.text.as_bytes()), "{:?}", host.lines);
        let before = (headers(&host), host.header(PROTO));
        let mut stream = root.create_stream(2);
        stream.on_request_headers(&host);
        let proto = host.header(PROTO);
        if stranger.is_some() {
            let expected = match policy.fallback {
                "keep" => before.1.as_deref(),
                "connection" if has_tls => Some("https"),
                _ => Some("http"),
            };
            prop_assert_eq!(proto.as_deref(), expected, "{}", PROTO);
            prop_assert_eq!(host.metric_of("untrusted"), 1);
            let is_left = FORGEABLE.iter().any(|name| host.header(name).is_some());
            prop_assert!(!policy.strips || !is_left, "a forgeable header is left");
        } else {
            prop_assert!(matches!(proto.as_deref(), Some("http" | "https")), "{:?}", proto);
        }
        prop_assert!(headers(&host) != before.0 || host.writes.get() == 0, "a needless edit");
        prop_assert_eq!((host.metric_of("begun"), host.metric_of("in_flight")), (1, 1));
        stream.on_delete(&host);
        prop_assert_eq!(host.metric_of("in_flight"), 0);
    }
}
