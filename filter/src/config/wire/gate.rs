//! What the gate waits for, and how it makes traffic leave.

#[cfg(feature = "schema")]
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use smart_default::SmartDefault;

use super::Scope;
use crate::config::read::whole;

/// No drain takes longer: thirty days, in milliseconds. A larger number is a slip.
const LONGEST: u64 = 2_592_000_000;

/// Shorter secrets are refused, because they can be guessed.
pub const SHORTEST_SECRET: usize = 16;

/// What the gate waits for and how it makes traffic leave.
#[derive(Debug, Clone, PartialEq, Eq, SmartDefault, Deserialize, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(default, deny_unknown_fields)]
pub struct Gate {
    /// Whose streams it waits for.
    #[default(vec![Scope::Gateway])]
    pub scopes: Vec<Scope>,
    /// How long nothing may be in flight, and nothing begin, before it is believed; milliseconds.
    #[serde(deserialize_with = "whole::<200, LONGEST, _>")]
    #[cfg_attr(feature = "schema", schemars(range(min = 200, max = LONGEST)))]
    #[default(1000)]
    pub quiet_ms: u64,
    /// How long zero must last where Envoy does not tell whether bytes still wait to be written;
    /// milliseconds.
    #[serde(deserialize_with = "whole::<0, LONGEST, _>")]
    #[cfg_attr(feature = "schema", schemars(range(min = 0, max = LONGEST)))]
    #[default(500)]
    pub linger_ms: u64,
    /// When it is over whatever happens, from the beginning of the drain; milliseconds. The usual
    /// grace period of a pod, less what Istio's agent and kubelet need after the hook.
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
    /// Where Envoy does not export its own count of requests: how long the youngest counter must
    /// have counted before its zero is believed, since streams may be older than it; milliseconds.
    #[serde(deserialize_with = "whole::<0, LONGEST, _>")]
    #[cfg_attr(feature = "schema", schemars(range(min = 0, max = LONGEST)))]
    #[default(60_000)]
    pub assumed_after_ms: u64,
    /// What long-lived streams do to the drain.
    pub long_lived: LongLivedPolicy,
    /// Streams that are older than this when the drain begins are long-lived, too; milliseconds.
    pub long_lived_after_ms: Option<u64>,
    /// How the drain begins.
    pub begin: Begin,
    /// The last call, once the last stream is out.
    pub finish: Finish,
    /// How Envoy's admin interface is reached.
    pub admin: Admin,
    /// Also wait until the app has gone, so that the proxy outlives it.
    pub app: Option<App>,
    /// What state-changing requests, and the listing of streams, must carry in
    /// `x-laststream-secret`: 16 visible ASCII characters or more. Here it stands in clear text:
    /// prefer `secret_key`. One of both is required when the listener is not on the loopback
    /// interface.
    pub secret: Option<String>,
    /// The filter state key that holds the secret, which a `set_filter_state` filter in front of
    /// the gate writes from a place outside of the configuration, such as `%ENVIRONMENT(NAME)%`.
    /// While nothing is there, the gate refuses what needs the secret.
    pub secret_key: Option<String>,
    /// Names under which the gate may be asked, besides IP addresses and `localhost`. A request to
    /// any other name is refused: a page in a browser can reach this machine under a name of its
    /// own (DNS rebinding).
    pub hosts: Vec<String>,
}

/// What long-lived streams do to the drain.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Deserialize, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum LongLivedPolicy {
    /// They hold it like all others.
    #[default]
    Wait,
    /// They do not hold it, and are reported apart.
    Exempt,
}

/// How the drain begins.
#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(default, deny_unknown_fields)]
pub struct Begin {
    /// What is asked of Envoy.
    pub call: BeginCall,
    /// Only listeners of inbound traffic are drained. For sidecars; it does nothing on a gateway.
    pub inbound_only: bool,
    /// How long to wait before, while the endpoint's removal spreads; milliseconds.
    #[serde(deserialize_with = "whole::<0, LONGEST, _>")]
    #[cfg_attr(feature = "schema", schemars(range(min = 0, max = LONGEST)))]
    pub delay_ms: u64,
}

/// What makes traffic leave.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Deserialize, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum BeginCall {
    /// `/drain_listeners?graceful&skip_exit`: responses tell clients to close. It cannot be taken
    /// back.
    #[default]
    DrainListeners,
    /// `/healthcheck/fail`: the same for both directions; it can be taken back.
    FailHealthChecks,
    /// Nothing; somebody else sees to it.
    Nothing,
}

/// The last call, made at zero and never at the deadline.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Deserialize, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Finish {
    /// None.
    #[default]
    Nothing,
    /// `POST /drain` to Istio's agent: at SIGTERM it then ends at once.
    DrainAgent,
    /// `POST /quitquitquit` to Envoy.
    Quit,
}

/// How Envoy's admin interface, and Istio's agent, are reached.
#[derive(Debug, Clone, PartialEq, Eq, SmartDefault, Deserialize, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(default, deny_unknown_fields)]
pub struct Admin {
    /// The cluster of the admin interface; Istio's bootstrap has this one.
    #[default("prometheus_stats".into())]
    pub cluster: String,
    /// The cluster of Istio's agent.
    #[default("agent".into())]
    pub agent_cluster: String,
    /// How long an answer may take; milliseconds.
    #[serde(deserialize_with = "whole::<50, 60_000, _>")]
    #[cfg_attr(feature = "schema", schemars(range(min = 50, max = 60_000)))]
    #[default(1000)]
    pub timeout_ms: u64,
    /// Stat prefixes of connection managers whose requests do not hold the drain.
    #[default(vec!["admin".into(), "stats".into(), "agent".into(), "laststream".into()])]
    pub ignore: Vec<String>,
}

/// The app beside the proxy.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct App {
    /// Its cluster, without TLS.
    pub cluster: String,
    /// What is asked of it. It has gone when its port refuses connections. An app that hangs,
    /// breaks off or says 503 is there; with one that Envoy cannot ask, the gate holds until the
    /// deadline.
    #[serde(default = "App::usual_path")]
    pub path: String,
}

impl App {
    fn usual_path() -> String {
        "/".into()
    }
}
