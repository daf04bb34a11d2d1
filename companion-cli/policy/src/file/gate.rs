//! The section `gate.notify`.

use schemars::JsonSchema;
use serde::Deserialize;

use laststream_base::time_span::TimeSpan;

/// The call that tells the app that the drain has begun: a POST request, tried at most three times.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Notify {
    /// Envoy's cluster for the app, without TLS, such as `inbound|8080||`.
    pub cluster: String,
    /// The path of the request.
    pub path: String,
    /// The time-out of a try, by default 2s.
    pub timeout: Option<TimeSpan>,
}
