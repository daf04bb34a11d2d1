//! The bodies of the gate's answers, and the sentence that explains why it waits. Pure.

#[cfg(feature = "schema")]
use schemars::JsonSchema;
use serde::Serialize;

pub use super::end_status::EndStatus;
use super::observation::{App, EnvoyCount, Reason};
use super::phase::Phase;
use super::policy::Policy;
use super::snapshot::Snapshot;
use super::step::Step;
use crate::census::{CountState, StreamKind};
use crate::config::wire::Scope;

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
    /// How to make an `assumed` count exact.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub advice: Option<String>,
    /// Streams that hold the drain.
    pub holding: u64,
    /// Each scope that the gate waits for.
    pub scopes: Vec<ScopeStatus>,
    /// How many workers' counters answered.
    pub counters: u64,
    /// How many do not answer any more.
    pub lost_counters: u64,
    /// Envoy's own count of requests in flight, if it was asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub envoy_active: Option<u64>,
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

/// The oldest streams that hold the drain.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct Streams {
    /// How far the drain is.
    pub state: Phase,
    /// Streams that hold the drain.
    pub holding: u64,
    /// Whether these are all of them, and every counter has answered.
    pub complete: bool,
    /// The oldest first.
    pub streams: Vec<StreamStatus>,
}

/// One stream.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct StreamStatus {
    /// The scope in which it is counted.
    pub scope: Scope,
    /// How long ago its request arrived; milliseconds.
    pub age_ms: u64,
    /// Whether it is long-lived.
    pub long_lived: bool,
    /// Method and path, if the filter state `laststream.request` has them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub request: Option<String>,
    /// Such as `HTTP/2`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub protocol: Option<String>,
    /// The name of Envoy's route.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub route: Option<String>,
    /// The cluster to which it goes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cluster: Option<String>,
    /// The client's address, as Envoy takes it from `x-forwarded-for`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub peer: Option<String>,
    /// The address of the upstream, once it is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub upstream: Option<String>,
    /// The status of the response, once it is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status: Option<u64>,
    /// Bytes of the response's body so far.
    pub bytes: u64,
    /// Its kind, if its counter keeps kinds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kind: Option<StreamKind>,
    /// Whether its counter ends it: the client was answered, or a WebSocket closes.
    #[serde(skip_serializing_if = "core::ops::Not::not")]
    #[cfg_attr(feature = "schema", schemars(default))]
    pub ending: bool,
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
            Step::UnderWay { .. } | Step::Paused { .. } => Self::UnderWay,
            Step::Done => Self::Done,
            Step::Failed => Self::Failed,
        }
    }
}

/// The values that only a status shows. They are read when the status is sent.
#[derive(Debug, Default)]
pub(super) struct Details {
    pub(super) scopes: Vec<ScopeStatus>,
    pub(super) begun: u64,
    pub(super) is_sealed: bool,
    pub(super) refused: u64,
    pub(super) heals: u64,
    pub(super) evictions: u64,
}

impl Status {
    pub(super) fn new(policy: &Policy, snapshot: &Snapshot, details: Details) -> Self {
        let Snapshot { now, survey, stats, observed, record, .. } = snapshot;
        let is_draining = record.phase != Phase::Serving;
        let quiet_since = Some(record.quiet_since).filter(|since| *since > 0);
        let deadline = Some(record.deadline).filter(|_| record.phase.is_draining());
        Self {
            state: record.phase,
            reason: sentence(snapshot, policy.quiet),
            count: observed.count,
            advice: (observed.envoy == EnvoyCount::Absent).then(|| ADVICE.into()),
            holding: observed.holding,
            scopes: details.scopes,
            counters: survey.counters,
            lost_counters: survey.lost.len() as u64,
            envoy_active: stats.and_then(|stats| stats.active),
            buffered_bytes: observed.buffered,
            quiet_ms: quiet_since.map_or(0, |since| now.saturating_sub(since)),
            quiet_needed_ms: policy.quiet,
            draining_ms: record.duration(*now),
            deadline_in_ms: deadline.map(|deadline| deadline.saturating_sub(*now)),
            late: record.late_streams(details.begun),
            begin: is_draining.then(|| record.begin.into()),
            finish: (is_draining && policy.finishes()).then(|| record.finish.into()),
            notify: snapshot.notify.map(Into::into),
            sealed: details.is_sealed.then_some(true),
            refused: details.refused,
            heals: details.heals,
            ends: snapshot.ends.clone(),
            evictions: details.evictions,
            version: env!("CARGO_PKG_VERSION"),
        }
    }
}

impl Outcome {
    /// An outcome with the state and the count of a snapshot.
    pub(super) fn new(snapshot: &Snapshot, reason: &str) -> Self {
        let holding = Some(snapshot.observed.holding);
        Self { state: snapshot.record.phase, reason: reason.into(), holding }
    }
}

/// The text of a body.
pub(super) fn json(body: &impl Serialize) -> String {
    // This can fail only for maps whose keys are not strings.
    serde_json::to_string(body).unwrap_or_default()
}

const HOLDING: &str = ", and Envoy's own count is not known: holding until the deadline";

/// The advice on how to make Envoy export its own count.
pub(crate) const ADVICE: &str = "Envoy does not export its own count of requests, so none can be \
    compared; in Istio the annotation `sidecar.istio.io/statsInclusionSuffixes: \
    downstream_rq_active,downstream_rq_total,downstream_cx_tx_bytes_buffered,\
    downstream_cx_http3_active` makes the count exact";

/// One sentence on why the gate is open or closed. `needed` is the quiet period.
pub(super) fn sentence(snapshot: &Snapshot, needed: u64) -> String {
    let Snapshot { now, record, reason, .. } = snapshot;
    match reason {
        Reason::NotDraining => "no drain was asked for".into(),
        Reason::Streams(1) => format!("1 stream is in flight{}", ends_in_words(snapshot)),
        Reason::Streams(count) => {
            format!("{count} streams are in flight{}", ends_in_words(snapshot))
        }
        Reason::NoCounter => format!("{}{HOLDING}", why_not_exact(CountState::Unknown)),
        Reason::Requests(state, 1) => {
            format!("Envoy counts 1 request in flight ({})", why_not_exact(*state))
        }
        Reason::Requests(state, requests) => {
            format!("Envoy counts {requests} requests in flight ({})", why_not_exact(*state))
        }
        Reason::Unsure(state) => format!("{}{HOLDING}", why_not_exact(*state)),
        Reason::Asking => "the counters and Envoy are being asked".into(),
        Reason::Finishing => {
            "nothing is in flight; waiting for the answer of Istio's agent to `POST /drain`".into()
        }
        Reason::Bytes(count) => format!("{count} bytes wait to be written to clients"),
        Reason::App(App::Asking) => "the app is being asked whether it is still there".into(),
        Reason::App(App::Unreachable) => {
            "Envoy cannot ask the app, its cluster is missing or has no healthy endpoint: holding \
             until the deadline"
                .into()
        }
        Reason::App(App::There | App::Gone) => "the app is still there".into(),
        Reason::Beginning => {
            "clients are not told to leave yet: waiting for the delay, or for Envoy's answer".into()
        }
        Reason::Quiet { since } => {
            format!("nothing is in flight, for {} of {needed} ms", now.saturating_sub(*since))
        }
        Reason::Open(Phase::Forced) => format!("forced: {}", record.force_reason),
        Reason::Open(Phase::Expired) => "the deadline came before the last stream had ended".into(),
        Reason::Open(_) => "the last stream has ended".into(),
    }
}

fn ends_in_words(snapshot: &Snapshot) -> String {
    match &snapshot.ends {
        Some(EndStatus { left: Some(left @ 1..), begins_in_ms: None, ends_in_ms, .. }) => {
            format!("; the gate ends {left} of them within {} s", ends_in_ms.div_ceil(1_000))
        }
        _ => String::new(),
    }
}

/// The reason why a count is not exact.
fn why_not_exact(state: CountState) -> &'static str {
    match state {
        CountState::Leaking => "a worker's counter does not reply any more",
        CountState::Partial => {
            "streams may be older than the counters, or on a filter chain without one"
        }
        CountState::Rejected => "Envoy's stats matcher rejects a counter of streams",
        CountState::Unknown => "no counter of streams is known here",
        CountState::Asking | CountState::Exact | CountState::Assumed => {
            "the counters are being asked"
        }
    }
}
