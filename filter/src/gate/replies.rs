//! The bodies of the gate's answers, and the sentence that explains why it waits. Pure.

use laststream_drain::ends::EndView;
use laststream_drain::phase::Phase;
use laststream_drain::policy::Policy;
use laststream_drain::step::Step;
use laststream_drain::view::View;
use laststream_drain::words::{advice, sentence};
#[cfg(feature = "schema")]
use schemars::JsonSchema;
use serde::Serialize;

use super::facts;
use super::metrics::Metrics;
use super::{CountState, StreamKind};
use crate::config::wire::Scope;
use crate::host::Control;

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

/// Streams that the gate ends before the deadline of the drain.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct EndStatus {
    /// The kinds that are ended.
    pub kinds: Vec<StreamKind>,
    /// Streams of these kinds that are to be ended, as far as the counters have answered. Absent if
    /// none has, as before the ends begin.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub left: Option<u64>,
    /// When the ends begin; milliseconds. Absent once they have begun.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub begins_in_ms: Option<u64>,
    /// How long they are spread from now on; milliseconds.
    pub ends_in_ms: u64,
}

impl EndStatus {
    fn new(ends: EndView, now: u64) -> Self {
        Self {
            kinds: ends.kinds.iter().collect(),
            left: ends.left,
            begins_in_ms: ends.window.from.checked_sub(now).filter(|wait| *wait > 0),
            ends_in_ms: ends.window.to.saturating_sub(now),
        }
    }
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
            Step::UnderWay { .. } | Step::Sent { .. } | Step::Paused { .. } => Self::UnderWay,
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

impl Details {
    /// Reads what only Envoy's metrics and the shared data show.
    pub(super) fn read(host: &impl Control, metrics: &Metrics) -> Self {
        let read = |metric| host.get_metric(metric).unwrap_or_default();
        let scopes = metrics.scopes.iter().map(|(scope, metrics)| {
            // A gauge below zero is never shown.
            let shown = |number: u64| if i64::try_from(number).is_ok() { number } else { 0 };
            let [in_flight, long_lived, begun] = metrics.map(|metric| shown(read(metric)));
            ScopeStatus { scope: *scope, in_flight, long_lived, begun }
        });
        let scopes: Vec<ScopeStatus> = scopes.collect();
        Self {
            begun: scopes.iter().map(|scope| scope.begun).sum(),
            scopes,
            is_sealed: crate::census::latch::is_sealed(host),
            refused: read(metrics.refused),
            heals: facts::heals(host),
            evictions: read(metrics.evictions.total),
        }
    }
}

impl Status {
    pub(super) fn new(policy: &Policy, view: &View, details: Details) -> Self {
        let View { now, survey, stats, observed, record, .. } = view;
        let is_draining = record.phase != Phase::Serving;
        let quiet_since = Some(record.quiet_since).filter(|since| *since > 0);
        let deadline = Some(record.deadline).filter(|_| record.phase.is_draining());
        Self {
            state: record.phase,
            reason: sentence(view, policy),
            count: observed.count,
            advice: advice(view, policy),
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
            notify: view.notify.map(Into::into),
            sealed: details.is_sealed.then_some(true),
            refused: details.refused,
            heals: details.heals,
            ends: view.ends.map(|ends| EndStatus::new(ends, *now)),
            evictions: details.evictions,
            version: env!("CARGO_PKG_VERSION"),
        }
    }
}

pub(super) fn respond_json(host: &impl Control, stream: u32, status: u16, body: &str) {
    let json = ("content-type", "application/json");
    match status {
        503 => host.send_http_response(stream, status, &[json, ("retry-after", "1")], body),
        _ => host.send_http_response(stream, status, &[json], body),
    }
}

pub(super) fn json(body: &impl Serialize) -> String {
    // This can fail only for maps whose keys are not strings.
    serde_json::to_string(body).unwrap_or_default()
}
