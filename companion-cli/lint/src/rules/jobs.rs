//! LS601 to LS603: Jobs beside a sidecar.

use crate::finding::Rule;
use crate::finding::{Findings, Severity};
use crate::inputs::Inputs;
use crate::pods::pods;

pub(super) const RULES: &[Rule] = &[
    Rule {
        code: "LS601",
        severity: Severity::Error,
        title: "the proxy is ended with pkill",
        why: "The signal comes while streams may still run, and cuts them. It needs a shell, \
            shared process ids or a container that does nothing else, and the Job's own exit code \
            is easily lost on the way.",
        fix: "Run the command as `laststream exec -- COMMAND`: it ends the sidecar when the last \
            outbound stream is out, and passes the exit code on. Native sidecars end by \
            themselves.",
        check: pkill,
    },
    Rule {
        code: "LS602",
        severity: Severity::Warning,
        title: "the Job shares process ids between its containers",
        why: "Every container may look into the others and signal them, only so that one can end \
            the sidecar.",
        fix: "Run the command as `laststream exec -- COMMAND`, or use native sidecars, and remove \
            `shareProcessNamespace`.",
        check: shared_processes,
    },
    Rule {
        code: "LS603",
        severity: Severity::Warning,
        title: "a shell loop waits for the sidecar",
        why: "It has no deadline, needs a shell with wget or curl, and waits for ever where no \
            sidecar is injected.",
        fix: "Run the command as `laststream exec -- COMMAND` (it waits with a deadline), or \
            set `holdApplicationUntilProxyStarts`. Native sidecars start \
            first by themselves.",
        check: waiting_loop,
    },
];

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
