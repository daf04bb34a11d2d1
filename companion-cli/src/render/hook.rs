//! The stop hook: a client that every Istio proxy image has, asking the gate until it says that one may go.

use crate::policy::{KUBELET, Policy, Problem, Span};
use crate::yaml::{List, Map};

/// `lifecycle` of a container.
pub(super) fn lifecycle(port: u16, policy: &Policy) -> Map {
    let command = List::new()
        .note(
            "In every proxy image, distroless ones too. It asks until the answer is 200, which the gate gives when it is drained, or over.",
        )
        .item("pilot-agent")
        .item("wait")
        .item(format!("--url=http://127.0.0.1:{port}/prestop"))
        .note("One second above the gate's deadline: it ends there only where the gate does not answer at all.")
        .item(format!("--timeoutSeconds={}", timeout(policy)))
        .item("--periodMillis=250");
    Map::new().with("preStop", Map::new().with("exec", Map::new().with("command", command)))
}

fn timeout(policy: &Policy) -> u64 {
    (policy.sizing.deadline + Span::seconds(1)).whole_seconds()
}

/// What the grace period is made of.
pub(super) fn why_grace(policy: &Policy) -> String {
    let sizing = &policy.sizing;
    format!(
        "{} until the gate's deadline (the longest request: {}), {} for Istio's agent if the deadline is reached, {KUBELET} for kubelet.",
        sizing.deadline, sizing.longest_request, sizing.agent,
    )
}

/// The gate's port, without which there is nothing to ask.
pub(super) fn port(policy: &Policy) -> Result<u16, Problem> {
    policy.gate_port.ok_or_else(|| {
        Problem::new("gate", "there is none, and a stop hook asks the gate: leave `enabled: false` out, or place it where a gate can be")
    })
}
