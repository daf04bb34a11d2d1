//! The bodies of the gate's answers, and the sentence that says why it waits.

use super::machine::{App, Phase, Reason, Record, Step, Trust};
use crate::config::object::object;

object! {
    /// How the gate is.
    Status {
        /// `serving`, `draining`, `drained`, `expired` or `forced`.
        state: String = String::new(),
        /// Why it is open or closed, in words.
        reason: String = String::new(),
        /// How far the counts can be believed: `exact`, `asking`, `unknown`, `partial`, `rejected` or `leaking`.
        count: String = String::new(),
        /// Streams that hold the drain.
        holding: u64 = 0,
        /// Each scope that the gate waits for.
        scopes: Vec<ScopeStatus>,
        /// How many workers' counters answered.
        counters: u64 = 0,
        /// How many do not answer any more.
        lost_counters: u64 = 0,
        /// Envoy's own count of requests in flight, where it was asked for.
        envoy_active: Option<u64>,
        /// Bytes that wait to be written to clients, where that was asked for.
        buffered_bytes: Option<u64>,
        /// How long nothing has been in flight and nothing began; milliseconds.
        quiet_ms: u64 = 0,
        /// How long that must be.
        quiet_needed_ms: u64 = 0,
        /// How long the drain has gone on, or went on; milliseconds.
        draining_ms: u64 = 0,
        /// How long until the deadline; milliseconds.
        deadline_in_ms: Option<u64>,
        /// Streams that began after the drain did.
        late: u64 = 0,
        /// The call that makes traffic leave: `due`, `under way`, `done` or `failed`.
        begin: String = String::new(),
        /// The last call, in the same words.
        finish: String = String::new(),
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
        /// Its name.
        scope: String = String::new(),
        /// Streams in flight.
        in_flight: u64 = 0,
        /// Those of them that are long-lived.
        long_lived: u64 = 0,
        /// Streams ever begun.
        begun: u64 = 0,
    }
}

object! {
    /// An answer that is no status: what was done, or why not.
    Outcome {
        /// `serving`, `draining`, `drained`, `expired` or `forced`.
        state: String = String::new(),
        /// What was done, or why not.
        reason: String = String::new(),
        /// Streams that hold the drain.
        holding: Option<u64>,
    }
}

pub(crate) fn step_name(step: Step) -> &'static str {
    match step {
        Step::Due => "due",
        Step::Under { .. } => "under way",
        Step::Done => "done",
        Step::Failed => "failed",
    }
}

/// One sentence for people.
pub(crate) fn sentence(reason: &Reason, record: &Record, now: u64, needed: u64) -> String {
    match reason {
        Reason::NotDraining => "no drain was asked for".into(),
        Reason::Streams(1) => "1 stream is in flight".into(),
        Reason::Streams(count) => format!("{count} streams are in flight"),
        Reason::NobodyCounts => "nobody counts streams here, and Envoy's own count is not known: holding until the deadline".into(),
        Reason::Requests(trust, count) => format!("Envoy counts {count} requests in flight ({})", doubt(*trust)),
        Reason::Unsure(trust) => format!("{}, and Envoy's own count is not known: holding until the deadline", doubt(*trust)),
        Reason::Asking => "those who count streams are being asked".into(),
        Reason::Bytes(count) => format!("{count} bytes wait to be written to clients"),
        Reason::App(App::Asking) => "the app is being asked whether it is still there".into(),
        Reason::App(App::Unreachable) => {
            "Envoy cannot ask the app, its cluster is missing or has no healthy endpoint: holding until the deadline".into()
        }
        Reason::App(App::There | App::Gone) => "the app is still there".into(),
        Reason::Beginning => "traffic is not yet told to leave".into(),
        Reason::Quiet { since } => format!("nothing is in flight, for {} of {needed} ms", now.saturating_sub(*since)),
        Reason::Open(Phase::Forced) => format!("forced: {}", record.why),
        Reason::Open(Phase::Expired) => "the deadline came before the last stream had ended".into(),
        Reason::Open(_) => "the last stream has ended".into(),
    }
}

fn doubt(trust: Trust) -> &'static str {
    match trust {
        Trust::Leaking => "a worker's counter has died",
        Trust::Partial => "streams may be older than the counter",
        Trust::Rejected => "Envoy's stats matcher rejects a counter of streams",
        Trust::Unknown => "nobody counts streams here",
        Trust::Asking | Trust::Exact => "the counters are being asked",
    }
}
