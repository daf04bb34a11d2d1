//! The answers of running gates, and gates beside the pods that they are in.

use std::collections::{BTreeSet, HashMap};

use super::pods::{Running, grouped, named, running};
use crate::finding::Findings;
use crate::inputs::Inputs;
use crate::live::{GateAnswer, LivePod};
use crate::modules::gated_pods;
use crate::rules::grace::deadlines::AFTER;

pub(super) fn missing<'g>(inputs: &'g Inputs, findings: &mut Findings<'g>) {
    let without = |pod: &LivePod| match &pod.gate {
        GateAnswer::Missing(instead) if pod.settings.expects_gate() => Some(instead.clone()),
        _ => None,
    };
    for Running { workload, pod } in running(inputs) {
        for (instead, pods) in grouped(&workload.pods, without) {
            let pods = named(&pods, workload.pods.len());
            findings.at(pod.template, format!("{pods}: {instead}"));
        }
    }
}

/// The word of a count in which no stream is missing.
const EXACT: &str = "exact";

pub(super) fn inexact<'g>(inputs: &'g Inputs, findings: &mut Findings<'g>) {
    let words = |pod: &LivePod| match &pod.gate {
        GateAnswer::Here { count, why: Some(why), .. } => Some(format!("`{count}`: {why}")),
        GateAnswer::Here { count, .. } if count != EXACT => Some(format!("`{count}`")),
        GateAnswer::Silent(why) => Some(format!("could not be asked: {why}")),
        _ => None,
    };
    for Running { workload, pod } in running(inputs) {
        for (words, pods) in grouped(&workload.pods, words) {
            let pods = named(&pods, workload.pods.len());
            findings.at(pod.template, format!("{pods}: {words}"));
        }
    }
}

pub(super) fn versions<'g>(inputs: &'g Inputs, findings: &mut Findings<'g>) {
    let version = |pod: &LivePod| match &pod.gate {
        GateAnswer::Here { version, .. } => version.clone(),
        _ => None,
    };
    for Running { workload, pod } in running(inputs) {
        let versions = grouped(&workload.pods, version);
        let images = grouped(&workload.pods, |pod| pod.settings.module.clone());
        for modules in [versions, images].into_iter().filter(|modules| modules.len() > 1) {
            let shares =
                modules.iter().map(|(module, pods)| format!("`{module}` in {}", pods.len()));
            let shares: Vec<String> = shares.collect();
            findings.at(pod.template, format!("of its pods {}", shares.join(", ")));
        }
    }
}

/// The longest deadline of the gates of each pod, in milliseconds, by the place of its template.
fn deadlines(inputs: &Inputs) -> HashMap<(u32, u32), u64> {
    let mut deadlines = HashMap::new();
    for (_, gate, pod) in gated_pods(inputs) {
        let known = deadlines.entry((pod.template.tree, pod.template.id)).or_default();
        *known = gate.deadline_ms.max(*known);
    }
    deadlines
}

pub(super) fn grace_of_running_pods<'g>(inputs: &'g Inputs, findings: &mut Findings<'g>) {
    let running = running(inputs);
    if running.is_empty() {
        return;
    }
    let deadlines = deadlines(inputs);
    for Running { workload, pod } in running {
        let Some(deadline) = deadlines.get(&(pod.template.tree, pod.template.id)) else { continue };
        let Some(template) = &workload.template else { continue };
        let needed = deadline.div_ceil(1000).saturating_add(AFTER);
        let short = |pod: &LivePod| {
            let grace = pod.settings.grace;
            let is_short = grace < needed && grace != template.grace;
            is_short.then(|| format!("{grace} s of grace, and the gate needs {needed} s"))
        };
        for (what, pods) in grouped(&workload.pods, short) {
            let pods = named(&pods, workload.pods.len());
            findings.at(pod.template, format!("{pods}: {what}"));
        }
    }
}

pub(super) fn without_hook<'g>(inputs: &'g Inputs, findings: &mut Findings<'g>) {
    let running = running(inputs);
    if running.is_empty() {
        return;
    }
    let gated: BTreeSet<(u32, u32)> = gated_pods(inputs)
        .into_iter()
        .map(|(.., pod)| (pod.template.tree, pod.template.id))
        .collect();
    for Running { workload, pod } in running {
        let templates = workload.template.iter();
        let mut settings = templates.chain(workload.pods.iter().map(|pod| &pod.settings));
        let is_gated = gated.contains(&(pod.template.tree, pod.template.id));
        if is_gated && !settings.any(crate::live::PodSettings::asks_gate) {
            findings
                .at(pod.template, "a gate is in these pods, and their stop hook does not ask it");
        }
    }
}
