//! What a status and an outcome show. Pure.

#[cfg(feature = "schema")]
use schemars::JsonSchema;
use serde::Serialize;

use super::end_status::EndStatus;
use super::view::View;
use super::words::{advice, sentence, silence_in_words};
use crate::counts::{Facts, ScopeCounts};
use crate::state::{AgentState, CountState, DrainPolicy, Moment, Phase, Scope, Step};

/// The state and the counts of the gate.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct Status {
    /// How far the drain is.
    pub state: Phase,
    /// Why it is open or closed, in words.
    pub reason: String,
    /// How far the counts can be believed.
    pub count: CountState,
    /// How to make the count exact, or Envoy's own count known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub advice: Option<String>,
    /// Streams that hold the drain.
    pub holding: u64,
    /// Each scope that the gate waits for.
    pub scopes: Vec<ScopeStatus>,
    /// How many counters answered: each worker's, and the main thread's, which has no streams.
    pub counters: u64,
    /// How many do not answer any more.
    pub lost_counters: u64,
    /// The counters whose replies are late, in words.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub late_counters: Option<String>,
    /// Envoy's own count of requests in flight, if it was asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub envoy_active: Option<u64>,
    /// Open TCP connections, if they hold the drain and Envoy was asked for them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub connections: Option<u64>,
    /// Bytes that wait to be written to clients, if Envoy was asked for them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub buffered_bytes: Option<u64>,
    /// How long nothing has been in flight and nothing began; milliseconds.
    pub quiet_ms: u64,
    /// The quiet period; milliseconds.
    pub quiet_needed_ms: u64,
    /// How long the drain has lasted; milliseconds.
    pub draining_ms: u64,
    /// How long until the deadline, while draining; milliseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub deadline_in_ms: Option<u64>,
    /// Streams that began after the drain did.
    pub late: u64,
    /// The call that tells clients to leave; not while serving.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub begin: Option<Progress>,
    /// The last call, if there is one; not while serving.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub finish: Option<Progress>,
    /// The call that tells the app of the drain, if there is one; not while serving.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub notify: Option<Progress>,
    /// Istio's agent, if its stop begins the drain.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub agent: Option<AgentState>,
    /// Whether the signal to end was sent to Envoy or its agent: new streams are refused until the
    /// process ends.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sealed: Option<bool>,
    /// Signals that were refused because of streams in flight or unwritten bytes.
    pub refused: u64,
    /// How often a leaked count was healed.
    pub heals: u64,
    /// The streams that the gate ends, or will in this drain.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ends: Option<EndStatus>,
    /// Streams that were ended since Envoy started.
    pub evictions: u64,
    /// The module's version.
    pub version: &'static str,
}

/// The counts of one scope.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct ScopeStatus {
    /// The scope.
    pub scope: Scope,
    /// Streams in flight.
    pub in_flight: u64,
    /// Those of them that are long-lived.
    pub long_lived: u64,
    /// Streams ever begun.
    pub begun: u64,
}

/// The answer to a command: the effect, or why there is none.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct Outcome {
    /// How far the drain is.
    pub state: Phase,
    /// The effect, or why there is none.
    pub reason: String,
    /// Streams that hold the drain.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub holding: Option<u64>,
}

/// How far a call to Envoy or its agent is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Progress {
    /// Not made yet.
    Due,
    /// Being made.
    #[serde(rename = "under way")]
    UnderWay,
    /// Answered with success.
    Done,
    /// Given up.
    Failed,
}

impl From<Step> for Progress {
    fn from(step: Step) -> Self {
        match step {
            Step::Due => Self::Due,
            Step::Sent { .. } | Step::Again { .. } => Self::UnderWay,
            Step::Done => Self::Done,
            Step::Failed => Self::Failed,
        }
    }
}

/// The streams of a listing, before the shell has sorted them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Listings {
    /// The moment.
    pub now: Moment,
    /// How far the drain is.
    pub state: Phase,
    /// Streams that hold the drain.
    pub holding: u64,
    /// Whether the counters can be believed, and each has listed all of its streams.
    pub is_complete: bool,
    /// How many to show.
    pub limit: usize,
    /// The listings of the counters.
    pub listings: Vec<(Scope, String)>,
    /// Where no counter lists streams: Envoy's answer to the query for the requests of clusters.
    pub clusters: Option<String>,
}

impl ScopeStatus {
    /// A gauge below zero is never shown.
    fn new(counts: &ScopeCounts) -> Self {
        let non_negative = |number: u64| if i64::try_from(number).is_ok() { number } else { 0 };
        Self {
            scope: counts.scope,
            in_flight: non_negative(counts.gauges.in_flight),
            long_lived: non_negative(counts.gauges.long_lived),
            begun: non_negative(counts.begun),
        }
    }
}

impl Status {
    pub(crate) fn new(policy: &DrainPolicy, view: &View, facts: &Facts) -> Self {
        let View { now, survey, stats, observed, record, .. } = view;
        let is_draining = record.phase != Phase::Serving;
        let deadline = Some(record.deadline).filter(|_| record.phase.is_draining());
        Self {
            state: record.phase,
            reason: sentence(view, policy),
            count: observed.count,
            advice: advice(view, policy),
            holding: observed.holding,
            scopes: facts.counts.scopes.iter().map(ScopeStatus::new).collect(),
            counters: survey.counters,
            lost_counters: survey.lost.len() as u64,
            late_counters: silence_in_words(view),
            envoy_active: stats.and_then(|stats| stats.active),
            connections: stats.and_then(|stats| stats.connections),
            buffered_bytes: observed.buffered,
            quiet_ms: record.quiet_since.map_or(0, |since| (*now - since).0),
            quiet_needed_ms: policy.quiet.0,
            draining_ms: record.duration(*now).0,
            deadline_in_ms: deadline.map(|deadline| (deadline - *now).0),
            late: record.late_streams(facts.counts.begun()),
            begin: is_draining.then(|| record.begin.into()),
            finish: (is_draining && policy.finishes()).then(|| record.finish.into()),
            notify: view.notify.map(Into::into),
            agent: view.agent,
            sealed: facts.latch.is_sealed.then_some(true),
            refused: facts.tally.refused,
            heals: facts.tally.heals,
            ends: view.ends.clone(),
            evictions: facts.tally.evictions,
            version: env!("CARGO_PKG_VERSION"),
        }
    }
}
