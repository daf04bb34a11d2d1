//! The stop hook: `pilot-agent wait`, which every Istio proxy image has, asks the gate until it is
//! open.

use super::volume::Program;
use laststream_base::time_span::TimeSpan;
use laststream_base::yaml::{List, Map};
use laststream_policy::file::{Delivery, GateSecret, Starts};
use laststream_policy::{KUBELET, Policy, PolicyProblem, Sizing};

/// How long the gate holds each request, and how long `pilot-agent wait` waits for the answer. The
/// gate needs an answer of Envoy that is newer than the request; with very many clusters that takes
/// seconds. If the gate's VM dies meanwhile, the request is lost, and the next one asks again.
const HELD: TimeSpan = TimeSpan::seconds(10);
const PATIENCE: TimeSpan = TimeSpan::seconds(11);

/// The request of `pilot-agent wait`, whose path and first parameter are the same for every gate.
#[must_use]
pub fn question() -> String {
    format!("/prestop?wait={HELD}")
}

/// The options of `pilot-agent wait` that are the same for every gate.
#[must_use]
pub fn fixed_options() -> [String; 2] {
    [format!("--requestTimeoutMillis={}", PATIENCE.millis()), "--periodMillis=250".to_owned()]
}

/// `lifecycle` of a container.
pub(super) fn lifecycle(port: u16, policy: &Policy) -> Map {
    Map::of("preStop", Map::of("exec", pre_stop(port, policy)))
}

/// The command of a hook with laststream's own program: a list that may begin with a comment, and
/// the reason of the time-out.
pub(super) fn by_program(list: List, port: u16, why: &str, policy: &Policy) -> Map {
    let command = list
        .item(Program::path())
        .item("prestop")
        .item(format!("--gate=http://127.0.0.1:{port}"))
        .note(why)
        .item(format!("--timeout={}s", timeout(policy)));
    Map::of("command", command)
}

pub(super) const WHY_TIMEOUT: &str = "One second above the gate's deadline: it ends there only \
    where the gate does not answer at all.";

/// `exec` of the stop hook.
pub(super) fn pre_stop(port: u16, policy: &Policy) -> Map {
    let [patience, period] = fixed_options();
    let command = List::new()
        .note(
            "In every proxy image, distroless ones too. It asks until the answer is 200, which the \
                gate gives when it is drained, or over.",
        )
        .item("pilot-agent")
        .item("wait")
        .item(format!("--url=http://127.0.0.1:{port}{}", question()))
        .note(WHY_TIMEOUT)
        .item(format!("--timeoutSeconds={}", timeout(policy)))
        .item(patience)
        .item(period);
    let command = match &policy.file.gate.secret {
        Some(GateSecret::Environment(name)) => with_secret(port, policy, name),
        _ => command,
    };
    Map::of("command", command)
}

/// `pilot-agent wait` sends no headers, and kubelet puts no variables into a hook's command: a
/// shell does.
fn with_secret(port: u16, policy: &Policy, name: &str) -> List {
    List::new().note(NEEDS_SHELL).item("sh").item("-c").item(format!(
        "exec pilot-agent wait \
                --url=\"http://127.0.0.1:{port}{}&secret=${name}\" \
                --timeoutSeconds={} {}",
        question(),
        timeout(policy),
        fixed_options().join(" ")
    ))
}

/// The comment on a hook with a secret. Its first words make the linter ignore what the rest says.
pub(super) const NEEDS_SHELL: &str = "laststream-lint: ignore=LS503 the shell puts the secret \
    into the URL; an image without one needs `laststream prestop`, which reads LASTSTREAM_SECRET \
    itself. The hook asks until the answer is 200, which the gate gives when it is drained, or \
    over.";

/// The time-out of the hook in seconds.
pub(super) fn timeout(policy: &Policy) -> u64 {
    (policy.sizing.deadline + TimeSpan::seconds(1)).whole_seconds()
}

/// The spec of a pod, which begins with its grace period.
pub(super) fn pod_with_grace(policy: &Policy) -> Map {
    Map::new()
        .note(why_grace(policy))
        .with("terminationGracePeriodSeconds", policy.sizing.grace_period.whole_seconds())
}

/// The grace period of a pod in Kubernetes, unless it says another.
const USUAL_GRACE: TimeSpan = TimeSpan::seconds(30);

/// The grace period beside the annotations, where no hook has one: empty, unless it is longer
/// than usual.
pub(super) fn grace_without_hook(policy: &Policy) -> Map {
    if policy.gate_port.is_some() && has_hook(policy) {
        return Map::new();
    }
    longer_grace(policy)
}

/// The grace period of a pod whose drain, or whose agent, needs longer than usual; else empty.
pub(super) fn longer_grace(policy: &Policy) -> Map {
    let Sizing { grace_period, termination_drain, .. } = policy.sizing;
    let least = match policy.gate_port {
        Some(_) => grace_period,
        None => termination_drain + KUBELET,
    };
    if least > USUAL_GRACE { pod_with_grace(policy) } else { Map::new() }
}

/// The comment on the grace period: its parts.
pub(super) fn why_grace(policy: &Policy) -> String {
    let sizing = &policy.sizing;
    let agent = if sizing.agent == TimeSpan::default() {
        String::new()
    } else {
        format!("{} for Istio's agent if the deadline is reached, ", sizing.agent)
    };
    format!(
        "{} until the gate's deadline (the longest request: {}), {agent}{KUBELET} for kubelet.",
        sizing.deadline, sizing.longest_request,
    )
}

const NEEDS_NONE: &str = "is `agent`, so no stop hook is needed: write `hook` if you want one";

/// The reason why no hook is rendered where the secret comes from SDS.
pub(super) const NO_HOOK: &str = "`pilot-agent wait` cannot read it from a file: write the hook \
    with `laststream prestop --secret-file FILE`, or take `environment`";

/// Whether a stop hook is needed that cannot read the secret.
pub(super) fn lacks_secret(policy: &Policy) -> bool {
    policy.starts == Starts::Hook && matches!(policy.file.gate.secret, Some(GateSecret::Sds(_)))
}

/// Whether a stop hook is rendered.
pub(super) fn has_hook(policy: &Policy) -> bool {
    policy.starts == Starts::Hook && !lacks_secret(policy)
}

/// The gate's port. An error if there is no gate, or no hook that can ask it.
pub(super) fn port(policy: &Policy) -> Result<u16, PolicyProblem> {
    if policy.starts == Starts::Agent {
        return Err(PolicyProblem::new("drain.starts", NEEDS_NONE));
    }
    if lacks_secret(policy) {
        return Err(PolicyProblem::new("gate.secret", NO_HOOK));
    }
    let in_bootstrap = policy.placement.facts().has_gate_in_bootstrap();
    let way_out = if in_bootstrap && policy.delivery != Delivery::ImageVolume {
        "write `delivery: image_volume`, without which this proxy can have none"
    } else {
        "leave `enabled: false` out"
    };
    policy.gate_port.ok_or_else(|| {
        PolicyProblem::new(
            "gate",
            format!("there is none, and a stop hook asks the gate: {way_out}"),
        )
    })
}
