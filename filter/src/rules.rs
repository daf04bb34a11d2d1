//! Which streams are not counted, and which are long-lived: lists of rules, any of which is enough.

use crate::headers::Headers;
use crate::text::Text;

/// What a stream is recognised by.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Rule {
    /// The path, without the query string.
    Path(Text),
    /// A header that is there, or one of whose values matches.
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

/// How the user agents of health checkers begin.
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
            Self::Grpc => is_grpc(headers),
            Self::EventStream => {
                let is_one = |kind: &[u8]| begins_with(kind.trim_ascii(), "text/event-stream");
                headers.all("accept").any(|kinds| kinds.split(|&byte| byte == b',').any(is_one))
            }
            Self::Route(text) => text.matches(&route()),
        }
    }
}

/// Whether any rule matches. `route` is asked for only if a rule needs it.
pub(crate) fn any(rules: &[Rule], headers: Headers<'_>, route: impl Fn() -> Vec<u8>) -> bool {
    rules.iter().any(|rule| rule.matches(headers, &route))
}

/// Whether the content type is one of gRPC's.
pub(crate) fn is_grpc(headers: Headers<'_>) -> bool {
    headers.first("content-type").is_some_and(|kind| begins_with(kind, "application/grpc"))
}

fn without_query(path: &[u8]) -> &[u8] {
    let end = path.iter().position(|byte| matches!(byte, b'?' | b'#'));
    end.and_then(|end| path.get(..end)).unwrap_or(path)
}

fn begins_with(text: &[u8], start: &str) -> bool {
    text.get(..start.len()).is_some_and(|text| text.eq_ignore_ascii_case(start.as_bytes()))
}
