//! The bodies of the gate's answers, and the sentence that says why it waits.

use alloc::string::String;
use alloc::vec::Vec;

use super::machine::{App, Phase, Reason, Record, Step, Trust};
use crate::config::object::{object, words};
use crate::config::wire::Scope;
use crate::pieces::text;

object! {
    /// How the gate is.
    Status {
        /// How far the drain is.
        state: Phase,
        /// Why it is open or closed, in words.
        reason: String = String::new(),
        /// How far the counts can be believed.
        count: Trust,
        /// What would make an `assumed` count exact.
        advice: Option<String>,
        /// Streams that hold the drain.
        holding: u64 = 0,
        /// Each scope that the gate waits for.
        scopes: Vec<ScopeStatus>,
        /// How many workers' counters answered.
        counters: u64 = 0,
        /// How many do not answer any more.
        lost_counters: u64 = 0,
        /// Envoy's own count of requests in flight, where that was asked for.
        envoy_active: Option<u64>,
        /// Bytes that wait to be written to clients, where that was asked for.
        buffered_bytes: Option<u64>,
        /// How long nothing has been in flight and nothing began; milliseconds.
        quiet_ms: u64 = 0,
        /// How long that must be.
        quiet_needed_ms: u64 = 0,
        /// How long the drain has gone on, or went on; milliseconds.
        draining_ms: u64 = 0,
        /// How long until the deadline, while draining; milliseconds.
        deadline_in_ms: Option<u64>,
        /// Streams that began after the drain did.
        late: u64 = 0,
        /// The call that makes traffic leave; not while serving.
        begin: Option<Progress>,
        /// The last call, where there is one; not while serving.
        finish: Option<Progress>,
        /// Whether the signal to end was sent to Envoy or its agent: new streams are refused until the process ends.
        sealed: Option<bool>,
        /// Signals that were refused because of streams in flight.
        refused: u64 = 0,
        /// How often a leaked count was put right.
        heals: u64 = 0,
        /// The module's version.
        version: String = env!("CARGO_PKG_VERSION").into(),
    }
}

object! {
    /// The counts of one scope.
    ScopeStatus {
        /// Which one.
        scope: Scope,
        /// Streams in flight.
        in_flight: u64 = 0,
        /// Those of them that are long-lived.
        long_lived: u64 = 0,
        /// Streams ever begun.
        begun: u64 = 0,
    }
}

object! {
    /// The oldest streams that hold the drain.
    Streams {
        /// How far the drain is.
        state: Phase,
        /// Streams that hold the drain.
        holding: u64 = 0,
        /// Whether these are all of them, and all who count have answered.
        complete: bool = false,
        /// The oldest first.
        streams: Vec<StreamStatus>,
    }
}

object! {
    /// One stream.
    StreamStatus {
        /// Whose count it is in.
        scope: Scope,
        /// How long ago its request came; milliseconds.
        age_ms: u64 = 0,
        /// Whether it is long-lived.
        long_lived: bool = false,
        /// What was asked, where the filter state `laststream.request` holds it.
        request: Option<String>,
        /// Such as `HTTP/2`.
        protocol: Option<String>,
        /// The name of Envoy's route.
        route: Option<String>,
        /// Where it goes.
        cluster: Option<String>,
        /// Who asks, as Envoy takes it from `x-forwarded-for`.
        peer: Option<String>,
        /// Who is asked, once that is known.
        upstream: Option<String>,
        /// The answer's status, once that is known.
        status: Option<u64>,
        /// Bytes of the answer's body so far.
        bytes: u64 = 0,
    }
}

object! {
    /// An answer that is no status: what was done, or why not.
    Outcome {
        /// How far the drain is.
        state: Phase,
        /// What was done, or why not.
        reason: String = String::new(),
        /// Streams that hold the drain.
        holding: Option<u64>,
    }
}

words! {
    /// How far a call to Envoy or its agent is.
    Progress, required => {
        /// Not made yet.
        Due = "due",
        /// Being made.
        UnderWay = "under way",
        /// Answered with success.
        Done = "done",
        /// Given up.
        Failed = "failed",
    }
}

impl From<Step> for Progress {
    fn from(step: Step) -> Self {
        match step {
            Step::Due => Self::Due,
            Step::Under { .. } => Self::UnderWay,
            Step::Done => Self::Done,
            Step::Failed => Self::Failed,
        }
    }
}

const HOLDING: &str = ", and Envoy's own count is not known: holding until the deadline";

/// What makes Envoy export its own count.
pub(crate) const ADVICE: &str = "Envoy does not export its own count of requests, so none can be compared; in Istio the annotation \
    `sidecar.istio.io/statsInclusionSuffixes: downstream_rq_active,downstream_rq_total,downstream_cx_tx_bytes_buffered` makes the count exact";

/// One sentence for people.
pub(crate) fn sentence(reason: &Reason, record: &Record, now: u64, needed: u64) -> String {
    match reason {
        Reason::NotDraining => "no drain was asked for".into(),
        Reason::Streams(1) => "1 stream is in flight".into(),
        Reason::Streams(count) => text![*count, " streams are in flight"],
        Reason::NoCounter => text![doubt(Trust::Unknown), HOLDING],
        Reason::Requests(trust, 1) => text!["Envoy counts 1 request in flight (", doubt(*trust), ")"],
        Reason::Requests(trust, count) => text!["Envoy counts ", *count, " requests in flight (", doubt(*trust), ")"],
        Reason::Unsure(trust) => text![doubt(*trust), HOLDING],
        Reason::Asking => "the counters and Envoy are being asked".into(),
        Reason::Finishing => "nothing is in flight; Istio's agent is being told".into(),
        Reason::Bytes(count) => text![*count, " bytes wait to be written to clients"],
        Reason::App(App::Asking) => "the app is being asked whether it is still there".into(),
        Reason::App(App::Unreachable) => {
            "Envoy cannot ask the app, its cluster is missing or has no healthy endpoint: holding until the deadline".into()
        }
        Reason::App(App::There | App::Gone) => "the app is still there".into(),
        Reason::Beginning => "traffic is not yet told to leave".into(),
        Reason::Quiet { since } => text!["nothing is in flight, for ", now.saturating_sub(*since), " of ", needed, " ms"],
        Reason::Open(Phase::Forced) => text!["forced: ", record.why],
        Reason::Open(Phase::Expired) => "the deadline came before the last stream had ended".into(),
        Reason::Open(_) => "the last stream has ended".into(),
    }
}

fn doubt(trust: Trust) -> &'static str {
    match trust {
        Trust::Leaking => "a worker's counter has died",
        Trust::Partial => "streams may be older than the counters, or on a filter chain without one",
        Trust::Rejected => "Envoy's stats matcher rejects a counter of streams",
        Trust::Unknown => "no counter of streams is known here",
        Trust::Asking | Trust::Exact | Trust::Assumed => "the counters are being asked",
    }
}
