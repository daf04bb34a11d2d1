//! The sentences that explain why the gate is open or closed. Pure.

use crate::count_state::CountState;
use crate::observation::{App, EnvoyCount, Reason};
use crate::phase::Phase;
use crate::policy::Policy;
use crate::samples::AdminFault;
use crate::view::View;

const HOLDING: &str = ", and Envoy's own count is not known: holding until the deadline";

/// The advice on how to make Envoy export its own count.
pub const ADVICE: &str = "Envoy does not export its own count of requests, so none can be \
    compared; in Istio the annotation `sidecar.istio.io/statsInclusionSuffixes: \
    downstream_rq_active,downstream_rq_total,downstream_cx_tx_bytes_buffered,\
    downstream_cx_http3_active` makes the count exact";

/// The advice for a configuration without an admin interface.
const NO_ADMIN: &str = "`gate.admin.cluster` is empty, so Envoy cannot be asked for its own count \
    of requests; the cluster of its admin interface makes the count exact";

/// The advice to the operator, if the count could be better.
#[must_use]
pub fn advice(view: &View, policy: &Policy) -> Option<String> {
    match (view.observed.envoy, view.fault) {
        (EnvoyCount::Absent, _) if !policy.has_admin() => Some(NO_ADMIN.into()),
        (EnvoyCount::Absent, _) => Some(ADVICE.into()),
        (EnvoyCount::Asking, Some(fault)) => Some(format!(
            "{}: check `gate.admin.cluster`, and raise `gate.admin.timeout_ms` if Envoy is slow",
            fault_in_words(fault, policy)
        )),
        _ => None,
    }
}

/// Why Envoy's own count is not known.
#[must_use]
pub(crate) fn fault_in_words(fault: AdminFault, policy: &Policy) -> String {
    let cluster = &policy.admin;
    match fault {
        AdminFault::Refused => {
            format!("Envoy has no cluster `{cluster}`, or no endpoint in it, for its statistics")
        }
        AdminFault::TimedOut => format!(
            "the cluster `{cluster}` did not answer with Envoy's statistics within {} ms",
            policy.stats_patience()
        ),
        AdminFault::Reset => {
            format!("the cluster `{cluster}` broke off its answer with Envoy's statistics")
        }
        AdminFault::Status(status) => {
            format!("the cluster `{cluster}` answered {status} instead of Envoy's statistics")
        }
        AdminFault::Foreign => {
            format!("the answer of the cluster `{cluster}` is not Envoy's statistics")
        }
    }
}

/// One sentence on why the gate is open or closed.
#[must_use]
pub fn sentence(view: &View, policy: &Policy) -> String {
    let View { now, record, reason, .. } = view;
    match reason {
        Reason::NotDraining => "no drain was asked for".into(),
        Reason::Streams(count) => streams_in_words(view, *count),
        Reason::NoCounter => format!("{}{HOLDING}", why_not_exact(CountState::Unknown)),
        Reason::Requests(state, 1) => {
            format!("Envoy counts 1 request in flight ({})", why_not_exact(*state))
        }
        Reason::Requests(state, requests) => {
            format!("Envoy counts {requests} requests in flight ({})", why_not_exact(*state))
        }
        Reason::Unsure(state) => format!("{}{HOLDING}", why_not_exact(*state)),
        Reason::Asking => match view.fault {
            Some(fault) => {
                format!("{}: holding until the deadline", fault_in_words(fault, policy))
            }
            None => "the counters and Envoy are being asked".into(),
        },
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
        Reason::Quiet { since } => format!(
            "nothing is in flight, for {} of {} ms",
            now.saturating_sub(*since),
            policy.quiet
        ),
        Reason::Open(Phase::Forced) => format!("forced: {}", record.force_reason),
        Reason::Open(Phase::Expired) => "the deadline came before the last stream had ended".into(),
        Reason::Open(_) => "the last stream has ended".into(),
    }
}

fn streams_in_words(view: &View, count: u64) -> String {
    let streams = match count {
        1 => "1 stream is in flight".into(),
        _ => format!("{count} streams are in flight"),
    };
    let Some(ends) = view.ends.filter(|ends| view.now >= ends.window.from) else { return streams };
    match ends.left {
        Some(0) => format!("{streams}; none of them is of a kind that `end` ends"),
        Some(left) => {
            let time = ends.window.to.saturating_sub(view.now).div_ceil(1_000);
            format!("{streams}; the gate ends {left} of them within {time} s")
        }
        None => streams,
    }
}

fn why_not_exact(state: CountState) -> &'static str {
    match state {
        CountState::Leaking => "a worker's counter does not reply any more",
        CountState::Miscounted => "the gauges of streams in flight cannot be true",
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
