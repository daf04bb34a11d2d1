//! The section `gate`.

use schemars::JsonSchema;
use serde::Deserialize;

use laststream_base::time_span::TimeSpan;

/// The gate's listener.
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct GateSection {
    /// `false`: there is no gate, streams are only counted.
    pub enabled: Option<bool>,
    /// The gate's port on the loopback interface, by default 16091.
    #[schemars(range(min = 1))]
    pub port: Option<u16>,
    /// Where the proxy has the gate's secret from. Without one, any client in the pod may begin a
    /// drain, force the gate and end Envoy.
    pub secret: Option<GateSecret>,
    /// Host names that requests to the gate may carry, besides IP addresses and `localhost`.
    pub hosts: Vec<String>,
    /// How often a gate that serves evaluates its count, so that its metrics are current; 5s or
    /// more. By default it does so only when it is asked.
    pub evaluate_every: Option<TimeSpan>,
    /// Tells the app when the drain begins, so that it ends its own long streams.
    pub notify: Option<Notify>,
}

/// Where the proxy has the gate's secret from. The secret itself is never in a policy or in a
/// rendered file.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "snake_case")]
pub enum GateSecret {
    /// An environment variable of the proxy, such as `LASTSTREAM_SECRET`: 16 characters or more,
    /// letters and digits for a hook.
    Environment(String),
    /// A file in the proxy with an SDS resource: a `generic_secret` named `laststream-gate`. It
    /// may name the file with the secret.
    Sds(String),
}

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
