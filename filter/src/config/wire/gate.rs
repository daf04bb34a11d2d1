//! The configuration of the gate.

pub use laststream_drain::state::{BeginCall, Finish};
#[cfg(feature = "schema")]
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use smart_default::SmartDefault;

use super::Scope;
use super::end::End;
use crate::config::read::{optional_whole, secret, whole};

/// The longest drain: thirty days, in milliseconds. A larger number is a mistake.
const LONGEST: u64 = 2_592_000_000;

/// The length of the shortest secret. Shorter ones are refused, because they can be guessed.
pub const SHORTEST_SECRET: usize = 16;

/// The least age of a long-lived stream, in milliseconds. Most requests take less.
pub const SHORTEST_AGE: u64 = 1_000;

/// The cluster of the agent in Istio's bootstrap.
pub const ISTIOS_AGENT: &str = "agent";

/// What the gate waits for, and how it tells clients to leave.
#[derive(Debug, Clone, PartialEq, Eq, SmartDefault, Deserialize, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(default, deny_unknown_fields)]
pub struct Gate {
    /// The scopes that the gate waits for.
    #[default(vec![Scope::Gateway])]
    pub scopes: Vec<Scope>,
    /// The quiet period: how long nothing may be in flight, and nothing begin, before the drain is
    /// over; milliseconds.
    #[serde(deserialize_with = "whole::<200, LONGEST, _>")]
    #[cfg_attr(feature = "schema", schemars(range(min = 200, max = LONGEST)))]
    #[default(1000)]
    pub quiet_ms: u64,
    /// How long zero must last if the number of bytes that wait to be written is not known, because
    /// Envoy does not export it, or because of HTTP/3; milliseconds.
    #[serde(deserialize_with = "whole::<0, LONGEST, _>")]
    #[cfg_attr(feature = "schema", schemars(range(min = 0, max = LONGEST)))]
    #[default(500)]
    pub linger_ms: u64,
    /// The deadline, from the beginning of the drain; milliseconds. The default is the usual grace
    /// period of a pod, minus the time that Istio's agent and kubelet need after the hook.
    #[serde(deserialize_with = "whole::<201, LONGEST, _>")]
    #[cfg_attr(feature = "schema", schemars(range(min = 201, max = LONGEST)))]
    #[default(23_000)]
    pub deadline_ms: u64,
    /// How long `expired` and `forced` last while Envoy stays alive; then the gate serves again,
    /// and the next hook begins a new drain with a new deadline; milliseconds.
    #[serde(deserialize_with = "whole::<1_000, LONGEST, _>")]
    #[cfg_attr(feature = "schema", schemars(range(min = 1_000, max = LONGEST)))]
    #[default(30_000)]
    pub open_ms: u64,
    /// If Envoy does not export its own count of requests: how old the youngest counter must be
    /// before its zero is believed, because streams may be older than the counter; milliseconds.
    #[serde(deserialize_with = "whole::<0, LONGEST, _>")]
    #[cfg_attr(feature = "schema", schemars(range(min = 0, max = LONGEST)))]
    #[default(60_000)]
    pub assumed_after_ms: u64,
    /// How often a gate that serves evaluates its count for its metrics, because nothing else asks
    /// it then; milliseconds. Without it the metrics show the last evaluation, however old.
    #[serde(deserialize_with = "optional_whole::<5_000, LONGEST, _>")]
    #[cfg_attr(feature = "schema", schemars(with = "u64", range(min = 5_000, max = LONGEST)))]
    pub evaluate_every_ms: Option<u64>,
    /// Whether long-lived streams hold the drain.
    pub long_lived: LongLivedPolicy,
    /// Streams that are older than this when the drain begins are long-lived, too; milliseconds. At
    /// least a second, and at least the quiet period.
    #[cfg_attr(feature = "schema", schemars(range(min = SHORTEST_AGE)))]
    pub long_lived_after_ms: Option<u64>,
    /// Which streams the gate ends before the deadline, and when; only for counters with
    /// `count.kinds`. Without this field it ends none.
    pub end: Option<End>,
    /// Whose count decides.
    pub count: GateCount,
    /// Whether TCP connections hold the drain, too: those of listeners whose first network filter
    /// is Envoy's `connection_limit` with the stat prefix `laststream`. The gate's own listener
    /// needs it as well, with `laststream_gate`, so that a gate which must not see them can tell.
    pub tcp: bool,
    /// What starts the drain.
    pub starts: Starts,
    /// How the drain begins.
    pub begin: Begin,
    /// The last call, after the last stream has ended.
    pub finish: Finish,
    /// How Envoy's admin interface is reached.
    pub admin: Admin,
    /// Also wait until the app has gone, so that the proxy outlives it.
    pub app: Option<App>,
    /// Tell the app when the drain begins, so that it ends its own long streams.
    pub notify: Option<Notify>,
    /// The secret that state-changing requests, and the listing of streams, must carry in
    /// `x-laststream-secret`: 16 visible ASCII characters or more. It stands here in clear text, so
    /// prefer `secret_key`. One of the two is required if the listener is not on the loopback
    /// interface.
    #[serde(deserialize_with = "secret")]
    pub secret: Option<String>,
    /// The filter state key that holds the secret. A `set_filter_state` filter in front of the gate
    /// writes it from a place outside of the configuration, such as `%ENVIRONMENT(NAME)%`. While it
    /// is empty, the gate refuses requests that need the secret.
    pub secret_key: Option<String>,
    /// Host names that requests to the gate may carry, besides IP addresses and `localhost`.
    /// Requests for any other name are refused, because a page in a browser can reach this machine
    /// under its own name (DNS rebinding).
    pub hosts: Vec<String>,
}

/// Whether long-lived streams hold the drain.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Deserialize, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum LongLivedPolicy {
    /// They hold the drain like all others.
    #[default]
    Wait,
    /// They do not hold the drain, and are reported separately.
    Exempt,
}

/// Whose count decides.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Deserialize, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum GateCount {
    /// The filter's and Envoy's, which must agree.
    #[default]
    Filter,
    /// Envoy's alone: no filter is in the path, and nothing is added to a request. New requests
    /// are refused behind the last call by routes with the runtime key `laststream.latch`.
    Envoy,
}

/// What starts the drain.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Deserialize, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Starts {
    /// A stop hook, or an operator.
    #[default]
    Hook,
    /// These, and the stop of Istio's agent, whose port is asked once a second: no hook is needed.
    /// `finish` is then `quit`, and the last call is made only while that port refuses.
    Agent,
}

/// How the drain begins.
#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(default, deny_unknown_fields)]
pub struct Begin {
    /// The call to Envoy.
    pub call: BeginCall,
    /// Only listeners of inbound traffic are drained. For sidecars; it does nothing on a gateway.
    pub inbound_only: bool,
    /// How long the gate waits, after the drain has begun, before it tells Envoy to drain, while
    /// the removal of the endpoint spreads; milliseconds. The deadline includes it.
    #[serde(deserialize_with = "whole::<0, LONGEST, _>")]
    #[cfg_attr(feature = "schema", schemars(range(min = 0, max = LONGEST)))]
    pub delay_ms: u64,
}

/// How Envoy's admin interface, and Istio's agent, are reached.
#[derive(Debug, Clone, PartialEq, Eq, SmartDefault, Deserialize, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(default, deny_unknown_fields)]
pub struct Admin {
    /// The cluster of the admin interface. The default is the one in Istio's bootstrap. Empty:
    /// there is no admin interface, so Envoy's own count is missing, and not merely unknown.
    #[default("prometheus_stats".into())]
    pub cluster: String,
    /// The cluster of Istio's agent. For `starts: agent` one of its own, whose connections carry
    /// one request each, because those that others leave open are answered after the agent's stop.
    #[default(ISTIOS_AGENT.into())]
    pub agent_cluster: String,
    /// The time-out of a call; milliseconds.
    #[serde(deserialize_with = "whole::<200, 60_000, _>")]
    #[cfg_attr(feature = "schema", schemars(range(min = 200, max = 60_000)))]
    #[default(1000)]
    pub timeout_ms: u64,
    /// Stat prefixes of connection managers whose requests do not hold the drain. A list replaces
    /// the default, and needs `admin` as well.
    #[default(
        ["admin", "stats", "secure_stats", "secure_merged_stats", "agent", "laststream"]
            .map(String::from)
            .into()
    )]
    pub ignore: Vec<String>,
    /// Stat prefixes of connection managers that carry nothing but tunnels, such as
    /// `connect_terminate` of a waypoint. A tunnel does not hold the drain. Bytes that wait to be
    /// written into one do. The filter must not stand in such a connection manager, because it
    /// would count each tunnel as a stream.
    pub tunnels: Vec<String>,
}

/// The app beside the proxy.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct App {
    /// Envoy's cluster for the app, without TLS, such as `inbound|8080||`.
    pub cluster: String,
    /// The path of the request. The app has gone when its port refuses connections. An app that
    /// hangs, resets or answers 503 still counts as present. If Envoy cannot reach the cluster, the
    /// gate holds until the deadline.
    #[serde(default = "App::usual_path")]
    pub path: String,
}

/// The call that tells the app that the drain has begun. It is tried at most three times, and
/// neither delays nor prevents the drain.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Notify {
    /// The app's cluster, without TLS.
    pub cluster: String,
    /// The path of the POST request.
    pub path: String,
    /// The time-out of a try; milliseconds.
    #[serde(default = "Notify::usual_timeout", deserialize_with = "whole::<50, 60_000, _>")]
    #[cfg_attr(feature = "schema", schemars(range(min = 50, max = 60_000)))]
    pub timeout_ms: u64,
}

impl Notify {
    fn usual_timeout() -> u64 {
        2_000
    }
}

impl App {
    fn usual_path() -> String {
        "/".into()
    }
}
