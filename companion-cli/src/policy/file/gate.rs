//! The sections `gate.notify` and `gate.config_change`.

use schemars::JsonSchema;
use serde::Deserialize;

use crate::base::time_span::TimeSpan;

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

/// How changes of Envoy's configuration are treated.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct ConfigChange {
    /// Envoy's drain time in every pod: after it, Envoy closes the streams on a listener or filter
    /// chain that was replaced. The default is 45 s in Istio, 600 s for an Envoy of your own, and
    /// what `render` writes for Envoy Gateway.
    pub drain_time: Option<TimeSpan>,
}
