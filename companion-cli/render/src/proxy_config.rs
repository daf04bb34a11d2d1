//! Settings for Istio's bootstrap: the statistics that the gate reads, and the times of Istio's own
//! drains.

use super::objects::{block, unless_empty};
use laststream_base::istio::ISTIO_DRAIN;
use laststream_base::time_span::TimeSpan;
use laststream_base::yaml::Map;
use laststream_policy::file::{LongLived, Starts};
use laststream_policy::{Policy, PolicyProblem};

/// Istio's default of `terminationDrainDuration`.
const TERMINATION_DRAIN: TimeSpan = TimeSpan::seconds(5);

/// The suffixes of the statistics that the gate reads.
const STATISTICS: &str = "downstream_rq_active,downstream_rq_total,\
    downstream_cx_tx_bytes_buffered,downstream_cx_http3_active";
const WHY_STATISTICS: &str = "Istio leaves these out of Envoy's statistics. With the first two the \
    gate has Envoy's own count beside the filter's, with the third it waits for bytes that are not \
    written yet, with the fourth it knows that HTTP/3 has more of them; without them the count is \
    only `assumed`, and zero must last longer.";
const WHY_PENDING: &str = " The last one has the bytes of ended responses that wait in a tunnel.";

/// The comment at the head of each file with these annotations.
pub(super) const REPLACES: &str = "An annotation replaces the pod's own of the same name: add what \
    yours has, such as `gatewayTopology` or `tracing` in proxy.istio.io/config. And Istio takes \
    statsInclusionSuffixes in place of `inclusionSuffixes` in the mesh's `proxyStatsMatcher`: add \
    those, too.";

/// The comment on the text that has the policy's `exit_on_zero`.
pub(super) const AS_WANTED: &str = "laststream-lint: ignore=LS554 the policy wants \
    EXIT_ON_ZERO_ACTIVE_CONNECTIONS.";

pub(super) const START: &str = "Part of the bootstrap: it counts from the pod's next start on.";

/// The annotations of a gateway whose Deployment Istio makes; none if Istio's defaults suffice.
pub(super) fn gateway_annotations(policy: &Policy) -> Option<Map> {
    // The agent of such a gateway takes no environment from the annotation; the overlay sets it.
    let mut policy = policy.clone();
    policy.file.drain.exit_on_zero = false;
    annotations(&policy).ok()
}

/// The annotations of a pod. Without a gate the statistics are not needed.
pub(super) fn annotations(policy: &Policy) -> Result<Map, PolicyProblem> {
    let config = config(policy).as_ref().map(block);
    if policy.gate_port.is_none() && config.is_none() {
        return Err(PolicyProblem::new(
            "drain",
            "says nothing that Istio does not do by itself, and without a gate there is nothing \
                else to tell it",
        ));
    }
    let has_tunnels = !policy.placement.facts().admin.tunnels.is_empty();
    let (pending, why_pending) =
        if has_tunnels { (",pending_send_bytes", WHY_PENDING) } else { ("", "") };
    let exempts = policy.by_envoy && policy.long_lived == LongLived::Exempt;
    let upgrades = if exempts { ",downstream_cx_upgrades_active" } else { "" };
    let tcp = if policy.tcp.is_empty() { "" } else { ",active_connections,downstream_cx_total" };
    let watchdog = if policy.is_program() { ",watchdog_miss,watchdog_mega_miss" } else { "" };
    let more = [upgrades, pending, tcp, watchdog].concat();
    let statistics = policy.gate_port.map(|_| format!("{STATISTICS}{more}"));
    let mut annotations = Map::new()
        .note(format!("{WHY_STATISTICS}{why_pending}"))
        .with_some("sidecar.istio.io/statsInclusionSuffixes", statistics);
    if policy.file.drain.exit_on_zero {
        annotations = annotations.note(AS_WANTED);
    }
    Ok(annotations.with_some("proxy.istio.io/config", config))
}

/// The settings that differ from Istio's defaults.
fn config(policy: &Policy) -> Option<Map> {
    let sizing = &policy.sizing;
    let mut config = Map::new();
    if sizing.drain_time() > ISTIO_DRAIN {
        config = config
            .note(format!(
                "Envoy's drain time, {ISTIO_DRAIN} if nothing is said. 1.5 times {}: in the last \
                third Envoy (after 1.40) resets WebSockets, other upgrades and CONNECT tunnels. \
                And when Istio replaces a listener, what began before is cut after this time: \
                requests may take {}.",
                sizing.deadline.max(sizing.termination_drain),
                sizing.longest_request
            ))
            .with("drainDuration", sizing.drain_time().to_string());
    }
    if sizing.termination_drain != TERMINATION_DRAIN {
        let why = match policy.starts {
            Starts::Hook => {
                "What the agent takes after SIGTERM when the gate's deadline was \
                reached."
            }
            Starts::Agent => {
                "How long the agent waits after SIGTERM for the gate to end Envoy, \
                which is sooner unless the gate's deadline is reached."
            }
        };
        config =
            config.note(why).with("terminationDrainDuration", sizing.termination_drain.to_string());
    }
    if policy.file.drain.exit_on_zero {
        let metadata = Map::new()
            .note(
                "As the policy wants it. It counts connections, not requests: one idle \
                keep-alive connection, or one of the app's own, holds the pod until kubelet kills \
                it; it has no deadline, and terminationDrainDuration does not count with it. It \
                does nothing once the agent has been told to drain: Istio's own hook in native \
                sidecars, or the gate at zero.",
            )
            .with("EXIT_ON_ZERO_ACTIVE_CONNECTIONS", "true")
            .with("MINIMUM_DRAIN_DURATION", sizing.termination_drain.to_string());
        config = config.with("proxyMetadata", metadata);
    }
    unless_empty(config)
}
