//! The sentences that explain why the gate is open or closed, and why a signal does not pass. Pure.

use super::EndStatus;
use super::signals::Refusal;
use super::view::View;
use crate::counts::AdminFault;
use crate::state::{AgentState, App, CountState, DrainPolicy, EnvoyCount, Phase, Reason};

const HOLDING: &str = ", and Envoy's own count is not known: holding until the deadline";

/// The advice on how to make Envoy export its own count.
pub const ADVICE: &str = "Envoy does not export its own count of requests; in Istio the annotation \
    `sidecar.istio.io/statsInclusionSuffixes: \
    downstream_rq_active,downstream_rq_total,downstream_cx_tx_bytes_buffered,\
    downstream_cx_http3_active` makes the count exact";

/// The advice for a configuration without an admin interface.
const NO_ADMIN: &str = "`gate.admin.cluster` is empty, so Envoy cannot be asked for its own count \
    of requests; the cluster of its admin interface makes the count exact";

/// The advice if the agent's stop would not be seen.
const NO_AGENT: &str = "Istio's agent has not answered since Envoy started, so its stop begins no \
    drain, and it ends Envoy after `terminationDrainDuration`; the endpoint of \
    `gate.admin.agent_cluster` must be its status port, 15020 by default";

/// The advice if new requests cannot be refused behind the last call.
const NO_ROUTES: &str = "Envoy's runtime cannot be told to refuse new requests, so the last call \
    is not made: its bootstrap needs an `admin_layer` in `layered_runtime`";

/// The advice to the operator, if the count could be better.
pub(crate) fn advice(view: &View, policy: &DrainPolicy) -> Option<String> {
    match (view.observed.envoy, view.fault) {
        (EnvoyCount::Absent, _) if !policy.has_admin() => Some(NO_ADMIN.into()),
        (EnvoyCount::Absent, _) => Some(ADVICE.into()),
        (EnvoyCount::Awaited, Some(fault)) => Some(format!(
            "{}: check `gate.admin.cluster`, and raise `gate.admin.timeout_ms` if Envoy is slow",
            fault_in_words(fault, policy)
        )),
        _ if view.routes_have_failed => Some(NO_ROUTES.into()),
        _ if view.agent == Some(AgentState::NeverAnswered) => Some(NO_AGENT.into()),
        _ => None,
    }
}

/// Why Envoy's own count is not known.
pub(crate) fn fault_in_words(fault: AdminFault, policy: &DrainPolicy) -> String {
    let cluster = &policy.admin;
    match fault {
        AdminFault::NotSent => {
            format!("Envoy has no cluster `{cluster}`, or no connection to it, for its statistics")
        }
        AdminFault::TimedOut => format!(
            "the cluster `{cluster}` did not answer with Envoy's statistics within {} ms",
            policy.stats_patience().0
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

/// The counters whose replies are awaited for longer than usual.
pub(crate) fn silence_in_words(view: &View) -> Option<String> {
    let (silent, longest) = view.survey.silent;
    let counters = view.survey.counters + view.survey.lost.len() as u64;
    (silent > 0).then(|| {
        format!(
            "{silent} of {} counters have not replied for {} ms",
            counters.max(silent),
            longest.0
        )
    })
}

/// One sentence on why the gate is open or closed.
pub(crate) fn sentence(view: &View, policy: &DrainPolicy) -> String {
    let View { now, record, reason, .. } = view;
    match reason {
        Reason::NotDraining => "no drain was asked for".into(),
        Reason::Streams(count) => streams_in_words(view.ends.as_ref(), *count),
        Reason::NoCounter => format!("{}{HOLDING}", why_not_exact(CountState::Unknown)),
        Reason::Requests(CountState::Envoy, requests) => {
            streams_in_words(view.ends.as_ref(), *requests)
        }
        Reason::Requests(state, 1) => {
            format!("Envoy counts 1 request in flight ({})", why_not_exact(*state))
        }
        Reason::Requests(state, requests) => {
            format!("Envoy counts {requests} requests in flight ({})", why_not_exact(*state))
        }
        Reason::Unsure(state) => format!("{}{HOLDING}", why_not_exact(*state)),
        Reason::Asking => asking_in_words(view, policy),
        Reason::Finishing => {
            "nothing is in flight; waiting for the answer of Istio's agent to `POST /drain`".into()
        }
        Reason::Connections(1) => "1 TCP connection is open".into(),
        Reason::Connections(count) => format!("{count} TCP connections are open"),
        Reason::Bytes(count) => format!("{count} bytes wait to be written to clients"),
        Reason::App(App::Awaited) => "the app is being asked whether it is still there".into(),
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
            format!("nothing is in flight, for {} of {} ms", (*now - *since).0, policy.quiet.0)
        }
        Reason::Open(Phase::Forced) => format!("forced: {}", record.force_reason),
        Reason::Open(Phase::Expired) => "the deadline came first".into(),
        Reason::Open(_) => "the last stream has ended".into(),
    }
}

pub(crate) fn asking_in_words(view: &View, policy: &DrainPolicy) -> String {
    match view.fault {
        Some(fault) => format!("{}: holding until the deadline", fault_in_words(fault, policy)),
        None if lacks_connections(view, policy) => {
            format!("{NO_CONNECTIONS}: holding until the deadline")
        }
        None => silence_in_words(view)
            .unwrap_or_else(|| "the counters and Envoy are being asked".into()),
    }
}

const NO_CONNECTIONS: &str = "Envoy does not export its number of TCP connections, \
    `connection_limit.laststream_gate.active_connections`, or not `tcp.*.downstream_cx_total`";

/// Whether TCP connections matter, and Envoy's answer has none of their number.
fn lacks_connections(view: &View, policy: &DrainPolicy) -> bool {
    policy.counts_tcp && view.stats.is_some_and(|stats| stats.connections.is_none())
}

fn streams_in_words(ends: Option<&EndStatus>, count: u64) -> String {
    let streams = match count {
        1 => "1 stream is in flight".into(),
        _ => format!("{count} streams are in flight"),
    };
    let ends = ends.filter(|ends| ends.begins_in_ms.is_none());
    let Some(ends) = ends else { return streams };
    match ends.left {
        // Those that end already are in flight, too.
        Some(0) => format!("{streams}; the gate has no more of them to end"),
        Some(left) => {
            let time = ends.ends_in_ms.div_ceil(1_000);
            format!("{streams}; the gate ends {left} of them within {time} s")
        }
        None => streams,
    }
}

fn why_not_exact(state: CountState) -> &'static str {
    match state {
        CountState::Leaking => "a worker's counter no longer replies",
        CountState::Miscounted => "the gauges of streams in flight cannot be true",
        CountState::Partial => {
            "streams may be older than the counters, or on a filter chain without one"
        }
        CountState::Rejected => "Envoy's stats matcher rejects a counter of streams",
        CountState::Unknown => "no counter of streams is known here",
        CountState::Asking | CountState::Exact | CountState::Assumed | CountState::Envoy => {
            "the counters are being asked"
        }
    }
}

/// Why a signal does not pass.
pub(crate) fn refusal_in_words(refusal: Refusal, view: &View, policy: &DrainPolicy) -> String {
    match refusal {
        Refusal::Asking => match view.fault {
            Some(fault) => fault_in_words(fault, policy),
            None if lacks_connections(view, policy) => NO_CONNECTIONS.into(),
            None => silence_in_words(view).unwrap_or_else(|| NOT_ALL.into()),
        },
        Refusal::Unsure(count) => {
            format!("{}, and Envoy's own count is not known", why_not_exact(count))
        }
        Refusal::NotLasting(count) => why_not_exact(count).into(),
        Refusal::NoCounter => why_not_exact(CountState::Unknown).into(),
        Refusal::InFlight => "streams are in flight".into(),
        Refusal::InFlightElsewhere => {
            "streams of a scope that another gate waits for are in flight".into()
        }
        Refusal::Uncounted => "Envoy counts requests that no counter knows".into(),
        Refusal::Connected => "TCP connections are open".into(),
        Refusal::Unwritten => {
            "Envoy has bytes of responses that are not yet written to clients".into()
        }
        Refusal::LateCounter => {
            "a worker's counter does not answer; the signal passes after ten seconds of silence"
                .into()
        }
        Refusal::Busy => "another signal is being passed".into(),
        Refusal::LatchUnseen if policy.by_envoy => NO_ROUTES.into(),
        Refusal::LatchUnseen => {
            "Envoy's stats matcher rejects the gauge that keeps streams from beginning meanwhile"
                .into()
        }
    }
}

/// The answer while newer answers are awaited.
pub(crate) const NOT_ALL: &str = "the counters, or Envoy, have not all answered yet";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stream_that_ends_already_is_not_said_to_be_of_another_kind() {
        let ends =
            EndStatus { kinds: Vec::new(), left: Some(0), begins_in_ms: None, ends_in_ms: 0 };
        let words = "2 streams are in flight; the gate has no more of them to end";
        assert_eq!(streams_in_words(Some(&ends), 2), words);
    }
}
