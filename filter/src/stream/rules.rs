//! The rules for streams that are not counted, and for long-lived ones.

use crate::headers::Headers;
use crate::text::Text;

/// A rule that recognises streams.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Rule {
    /// The path, without the query string.
    Path(Text),
    /// A header, or one of its values.
    Header(String, Option<Text>),
    /// The user agent of a health checker.
    HealthCheck,
    /// An upgrade or CONNECT.
    Upgrade,
    /// The content type of gRPC.
    Grpc,
    /// A client that accepts an event stream.
    EventStream,
    /// The name of Envoy's route.
    Route(Text),
}

/// The beginnings of the user agents of health checkers.
const HEALTH_CHECKERS: [&str; 8] = [
    "kube-probe/",                         // kubelet
    "Envoy/HC",                            // Envoy's own
    "ELB-HealthChecker/",                  // AWS load balancers
    "Amazon-Route53-Health-Check-Service", // AWS Route 53
    "GoogleHC/",                           // Google Cloud
    "Edge Health Probe",                   // Azure Front Door
    "Load Balancer Agent",                 // Azure Load Balancer
    "Consul Health Check",                 // Consul
];

impl Rule {
    fn matches(&self, headers: Headers<'_>, route: &impl Fn() -> Vec<u8>) -> bool {
        match self {
            Self::Path(text) => {
                headers.first(":path").is_some_and(|path| text.matches(without_query(path)))
            }
            Self::Header(name, text) => {
                headers.all(name).any(|value| text.as_ref().is_none_or(|text| text.matches(value)))
            }
            Self::HealthCheck => headers.first("user-agent").is_some_and(|agent| {
                HEALTH_CHECKERS.iter().any(|start| agent.starts_with(start.as_bytes()))
            }),
            Self::Upgrade => {
                headers.first(":method") == Some(b"CONNECT") || headers.first("upgrade").is_some()
            }
            Self::Grpc => headers.is_grpc(),
            Self::EventStream => headers.accepts_event_stream(),
            Self::Route(text) => text.matches(&route()),
        }
    }
}

/// Whether any rule matches. `route` is called only if a rule needs it.
pub(crate) fn any(rules: &[Rule], headers: Headers<'_>, route: impl Fn() -> Vec<u8>) -> bool {
    rules.iter().any(|rule| rule.matches(headers, &route))
}

fn without_query(path: &[u8]) -> &[u8] {
    let end = path.iter().position(|byte| matches!(byte, b'?' | b'#'));
    end.and_then(|end| path.get(..end)).unwrap_or(path)
}

#[cfg(test)]
mod tests {
    use wasm_bindgen_test::wasm_bindgen_test;

    use crate::fake::{Contexts, Fake};

    const ROOT: u32 = 1;

    #[wasm_bindgen_test(unsupported = test)]
    fn excluded_streams_are_counted_apart() {
        let rules = r#"{"count": {"exclude": {
            "paths": [{"exact": "/healthz"}, {"prefix": "/internal/"}],
            "headers": [
                {"name": "X-Probe"},
                {"name": "x-kind", "exact": "synthetic"},
                {"name": "x-kind", "prefix": "test-"}
            ],
            "health_checks": true
        }}}"#;
        for (headers, counted) in [
            (vec![(":path", "/healthz")], false),
            (vec![(":path", "/healthz?full=1")], false),
            (vec![(":path", "/healthz/")], true),
            (vec![(":path", "/internal/x")], false),
            (vec![(":path", "/internal")], true),
            (vec![(":path", "/"), ("x-probe", "")], false),
            (vec![(":path", "/"), ("x-kind", "real"), ("x-kind", "synthetic")], false),
            (vec![(":path", "/"), ("x-kind", "synthetic2")], true),
            (vec![(":path", "/"), ("x-kind", "test-1")], false),
            (vec![(":path", "/"), ("user-agent", "kube-probe/1.34")], false),
            (vec![(":path", "/"), ("user-agent", "curl (like kube-probe/1.34)")], true),
        ] {
            let host = Fake::with_headers(&headers);
            let mut contexts = Contexts::configured(ROOT, &host, rules);
            contexts.create(2, ROOT);
            contexts.on_request_headers(2, &host);
            assert_eq!(host.metric_of("in_flight"), i64::from(counted), "{headers:?}");
            assert_eq!(host.metric_of("excluded"), i64::from(!counted), "{headers:?}");
            contexts.on_done(2, &host);
            assert_eq!(host.metric_of("in_flight"), 0, "{headers:?}");
        }
    }

    #[wasm_bindgen_test(unsupported = test)]
    fn long_lived_streams_are_counted_in_both() {
        let rules = r#"{"count": {"long_lived": {
            "upgrades": true, "grpc": true, "event_streams": true,
            "paths": [{"prefix": "/watch"}],
            "headers": [{"name": "x-long"}],
            "routes": [{"exact": "streaming"}]
        }}}"#;
        for (headers, route, long) in [
            (vec![("upgrade", "websocket")], "", true),
            (vec![(":method", "CONNECT")], "", true),
            (vec![("content-type", "application/grpc+proto")], "", true),
            (vec![("content-type", "application/json")], "", false),
            (vec![("accept", "application/json, Text/Event-Stream;q=1")], "", true),
            (vec![(":path", "/watch?x")], "", true),
            (vec![("x-long", "1")], "", true),
            (vec![], "streaming", true),
            (vec![], "streaming2", false),
        ] {
            let host = Fake::with_headers(&headers);
            host.properties.borrow_mut().insert("xds/route_name", route);
            let mut contexts = Contexts::configured(ROOT, &host, rules);
            contexts.create(2, ROOT);
            contexts.on_request_headers(2, &host);
            assert_eq!(
                (host.metric_of("in_flight"), host.metric_of("long_lived")),
                (1, i64::from(long)),
                "{headers:?} {route}"
            );
            contexts.on_done(2, &host);
            assert_eq!(
                (host.metric_of("in_flight"), host.metric_of("long_lived")),
                (0, 0),
                "{headers:?} {route}"
            );
        }
    }
}
