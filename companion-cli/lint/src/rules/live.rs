//! LS801 to LS810: what only a live cluster shows: pods beside their templates, the answers of
//! gates, rights, nodes that end pods early. This file has the texts.

mod gates;
mod pods;

use crate::finding::{Findings, Rule, Severity};
use crate::inputs::Inputs;
use laststream_base::yaml::tree::Position;

pub(super) const RULES: &[Rule] = &[
    Rule {
        code: "LS801",
        severity: Severity::Warning,
        title: "running pods differ from their template",
        why: "A stop hook, a grace period and annotations count from the next start of each pod \
            on. Pods that started before the change, or before the webhook made it, still stop as \
            they used to: their streams are cut.",
        fix: "Replace the pods: `kubectl rollout restart`, then `laststream rollout` shows when \
            the last old one has gone. With the strategy OnDelete delete them one by one.",
        check: pods::not_rolled,
    },
    Rule {
        code: "LS802",
        severity: Severity::Warning,
        title: "the stop hook is not the one that laststream renders",
        why: "The gate holds a request of the hook for a while, so that an answer is newer than \
            the question, and the agent must wait a little longer than that. With other times the \
            hook asks too often, or takes a held request for a silent gate.",
        fix: "Take the hook from `laststream render lifecycle`, or `laststream render overlay` for \
            a Gateway of the Gateway API.",
        check: pods::hook_differs,
    },
    Rule {
        code: "LS803",
        severity: Severity::Error,
        title: "the stop hook asks a port on which no gate listens",
        why: "Nothing answers there. `pilot-agent wait` asks until its time-out, and the pod takes \
            that long to stop whether streams are in flight or not; no drain begins.",
        fix: "Write the port of the gate's listener into the hook, or `gate.port` of the policy \
            and render both again.",
        check: pods::hook_asks_other_port,
    },
    Rule {
        code: "LS804",
        severity: Severity::Error,
        title: "no gate answers where the pod says that there is one",
        why: "The stop hook, or the annotation laststream.io/gate-port, expects a gate in these \
            pods. Without it nothing counts their streams, and the hook waits in vain.",
        fix: "Look for the EnvoyFilter: its namespace, its selector, and Envoy's log for the \
            module's name. `laststream status -o wide` shows each pod.",
        check: gates::missing,
    },
    Rule {
        code: "LS805",
        severity: Severity::Error,
        title: "running pods have less time than their gate needs",
        why: "These pods started with a shorter grace period than their template has now. kubelet \
            kills them while their gate still holds.",
        fix: "Replace the pods while they are idle: `laststream streams` shows what they carry.",
        check: gates::grace_of_running_pods,
    },
    Rule {
        code: "LS806",
        severity: Severity::Warning,
        title: "no stop hook asks the gate",
        why: "The gate is in these pods, and nothing waits for it: kubelet sends SIGTERM at once, \
            and what is in flight after the agent's own few seconds is cut.",
        fix: "Give the pods the hook of `laststream render lifecycle`, or of `laststream render \
            overlay` for a Gateway of the Gateway API.",
        check: gates::without_hook,
    },
    Rule {
        code: "LS807",
        severity: Severity::Warning,
        title: "a gate's count is not exact, or not known",
        why: "The gate opens when its count is zero. A count that lacks streams lets it open too \
            early, and a gate that cannot be asked may not be there.",
        fix: "Do what the reason says; docs/operate.md explains the words. `laststream status -o \
            wide` shows each pod.",
        check: gates::inexact,
    },
    Rule {
        code: "LS808",
        severity: Severity::Warning,
        title: "pods of one workload run different modules",
        why: "A module is loaded when its pod starts or its configuration comes. Pods with an \
            older one count and end streams by its rules, and a fix has not reached them.",
        fix: "Replace the pods with the older module: `kubectl rollout restart`. If new pods have \
            it, too, compare the digests in the EnvoyFilter and in the image volume.",
        check: gates::versions,
    },
    Rule {
        code: "LS809",
        severity: Severity::Warning,
        title: "a part of the cluster could not be judged",
        why: "The API server refused a request. The other objects were judged; mistakes in these \
            are not found, and a finding elsewhere may be missing with them.",
        fix: "Bind the ClusterRoles `laststream-linter` and `laststream-reader` of \
            envoyfilter-manifests/rights to the user. Where this part is not yours, write \
            `--ignore LS809`.",
        check: refused,
    },
    Rule {
        code: "LS810",
        severity: Severity::Warning,
        title: "nodes go before the grace period of their pods is over",
        why: "Karpenter deletes the pods of a node that goes early enough for the pool's own \
            terminationGracePeriod, also against disruption budgets. The cluster autoscaler waits \
            for --max-graceful-termination-sec, 600 by default. What a gate still holds then is \
            cut.",
        fix: "Make `spec.template.spec.terminationGracePeriod` of the NodePool, or the option of \
            the autoscaler, longer than the longest grace period.",
        check: pods::cut_by_nodes,
    },
];

fn refused<'g>(inputs: &'g Inputs, findings: &mut Findings<'g>) {
    let rights = crate::live::ClusterObject::rights();
    let sources = (0_u32..).zip(&inputs.sources);
    let place = sources.into_iter().find(|(_, source)| source.object.as_ref() == Some(&rights));
    let Some((place, _)) = place else { return };
    for why in &inputs.live.refused {
        findings.in_file(place, Position { line: 1, column: 1 }, why.clone());
    }
}
