//! LS601 to LS601: Jobs beside a sidecar.

use crate::{Checks, Findings, Inputs, pods};

pub(super) const CHECKS: Checks =
    &[("LS601", pkill), ("LS602", shared_processes), ("LS601", waiting_loop)];

fn pkill<'g>(inputs: &'g Inputs, findings: &mut Findings<'g>) {
    for (node, text) in inputs.scalars() {
        let kills = text.lines().find(|line| {
            (line.contains("pkill") || line.contains("killall"))
                && (line.contains("pilot-agent") || line.contains("envoy"))
        });
        if let Some(line) = kills {
            findings.in_text(node, line, "the proxy is signalled while streams may run");
        }
    }
}

fn shared_processes<'g>(inputs: &'g Inputs, findings: &mut Findings<'g>) {
    for pod in pods(inputs).filter(|pod| pod.is_job()) {
        if let Some(node) = pod.spec.get("shareProcessNamespace").filter(|node| node.is_true()) {
            findings
                .at(node, format!("the containers of `{}` share process ids", pod.object.name()));
        }
    }
}

fn waiting_loop<'g>(inputs: &'g Inputs, findings: &mut Findings<'g>) {
    for (node, text) in inputs.scalars() {
        let polls = text.contains(":15020/healthz/ready") || text.contains(":15021/healthz/ready");
        let loops = ["while", "until"].iter().any(|word| text.contains(word))
            && (text.contains("wget") || text.contains("curl"));
        if polls && loops {
            findings.in_text(node, "healthz/ready", "the loop has no deadline");
        }
    }
}
