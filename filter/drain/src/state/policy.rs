//! What a gate waits for, and how its drain begins and ends.

#[cfg(feature = "schema")]
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::ends::EndPolicy;
use super::moments::Millis;
use super::scope::Scope;
use super::timing::{AGENT_INTERVAL, REPLY_TIMEOUT, STATS_PATIENCE};

/// The call that tells clients to leave.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Deserialize, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum BeginCall {
    /// `/drain_listeners?graceful&skip_exit`: responses tell clients to close. Envoy cannot undo
    /// it.
    #[default]
    DrainListeners,
    /// `/healthcheck/fail`: the same for both directions. Envoy can undo it.
    FailHealthChecks,
    /// No call: something else tells clients to leave.
    Nothing,
}

/// The last call, made at zero and never at the deadline.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Deserialize, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Finish {
    /// No call.
    #[default]
    Nothing,
    /// `POST /drain` to Istio's agent, which then ends at once at SIGTERM.
    DrainAgent,
    /// `POST /quitquitquit` to Envoy.
    Quit,
}

/// The part of a gate's configuration that the protocol depends on.
#[derive(Debug, Clone)]
pub struct DrainPolicy {
    /// The scopes that the gate waits for.
    pub scopes: Vec<Scope>,
    /// How long nothing may be in flight.
    pub quiet: Millis,
    /// The same while the unwritten bytes are not known.
    pub linger: Millis,
    /// The longest drain.
    pub deadline: Millis,
    /// How long `expired` and `forced` last.
    pub open_for: Millis,
    /// How old every counter must be if Envoy does not export its own count.
    pub assumed_after: Millis,
    /// The wait before the begin call.
    pub delay: Millis,
    /// The time limit of a call.
    pub patience: Millis,
    /// Long-lived streams do not hold the drain.
    pub exempts_long_lived: bool,
    /// Streams that are older than this when the drain begins are long-lived.
    pub long_lived_after: Option<Millis>,
    /// Whether Envoy's own count is the only one: there is no filter in the path.
    pub by_envoy: bool,
    /// Whether TCP connections hold the drain, too: those that Envoy's filter `connection_limit`
    /// counts.
    pub counts_tcp: bool,
    /// Whether the stop of Istio's agent begins the drain, and permits the last call.
    pub watches_agent: bool,
    /// How the drain begins.
    pub begin: BeginCall,
    /// The last call.
    pub finish: Finish,
    /// The cluster of Envoy's admin interface; empty: the operator says that there is none.
    pub admin: String,
    /// Stat prefixes of connection managers whose requests do not hold the drain.
    pub ignore: Vec<String>,
    /// Stat prefixes of connection managers that carry nothing but tunnels.
    pub tunnels: Vec<String>,
    /// Whether the drain also waits until the app has gone.
    pub waits_for_app: bool,
    /// The time limit of the call that tells the app, if there is one.
    pub notify_patience: Option<Millis>,
    /// Which streams the gate ends before the deadline.
    pub end: EndPolicy,
    /// How often a gate that serves evaluates its counts for its metrics; none: not at all.
    pub evaluate_every: Option<Millis>,
}

impl DrainPolicy {
    /// Whether a call tells clients to leave.
    pub fn begins(&self) -> bool {
        self.begin != BeginCall::Nothing
    }

    /// Whether there is a last call.
    pub fn finishes(&self) -> bool {
        self.finish != Finish::Nothing
    }

    /// Whether Envoy can be asked for its own count.
    pub fn has_admin(&self) -> bool {
        !self.admin.is_empty()
    }

    /// Whether the begin call can be undone.
    pub fn can_undo(&self) -> bool {
        self.begin == BeginCall::FailHealthChecks
    }

    /// The tick of a gate that serves; none if it has nothing to do.
    pub(crate) fn serving_tick(&self) -> Option<Millis> {
        // Gates that tell routes must see a latch that nobody holds.
        let looks = (self.watches_agent || self.by_envoy).then_some(AGENT_INTERVAL);
        looks.into_iter().chain(self.evaluate_every).min()
    }

    /// The time limit of a query for Envoy's statistics.
    pub fn stats_patience(&self) -> Millis {
        self.patience * STATS_PATIENCE
    }

    /// The deadline of drains in a pod that leaves them this much time. Even a drain without
    /// streams needs the time to reach zero.
    pub(crate) fn deadline_within(&self, latest: Option<Millis>) -> Millis {
        let least = self.delay + self.quiet.max(self.linger) + REPLY_TIMEOUT;
        latest.map_or(self.deadline, |latest| self.deadline.min(latest.max(least)))
    }
}

/// The defaults of the configuration, for tests.
#[cfg(any(test, feature = "sim"))]
impl Default for DrainPolicy {
    fn default() -> Self {
        Self {
            scopes: vec![Scope::Gateway],
            quiet: Millis(1_000),
            linger: Millis(500),
            deadline: Millis(23_000),
            open_for: Millis(30_000),
            assumed_after: Millis(60_000),
            delay: Millis(0),
            patience: Millis(1_000),
            exempts_long_lived: false,
            long_lived_after: None,
            by_envoy: false,
            counts_tcp: false,
            watches_agent: false,
            begin: BeginCall::default(),
            finish: Finish::default(),
            admin: "prometheus_stats".into(),
            ignore: ["admin", "stats", "agent", "laststream"].map(String::from).into(),
            tunnels: Vec::new(),
            waits_for_app: false,
            notify_patience: None,
            end: EndPolicy::default(),
            evaluate_every: None,
        }
    }
}
