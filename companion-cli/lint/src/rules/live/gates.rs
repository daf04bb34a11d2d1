//! The answers of running gates, and gates beside the pods that they are in.

use std::cell::LazyCell;
use std::collections::HashMap;

use super::pods::{Running, grouped, report, running};
use crate::finding::Findings;
use crate::inputs::Inputs;
use crate::live::{GateAnswer, LivePod, PodSettings};
use crate::modules::gated_pods;
use crate::node::Node;
use crate::rules::grace::deadlines::AFTER;

pub(super) fn missing<'g>(inputs: &'g Inputs, findings: &mut Findings<'g>) {
    report(inputs, findings, ": ", |_, pod| match &pod.gate {
        GateAnswer::Missing(instead) if pod.settings.expects_gate() => Some(instead.clone()),
        _ => None,
    });
}

/// The words of a count in which no stream is missing.
const WHOLE: [&str; 2] = ["exact", "envoy"];

pub(super) fn inexact<'g>(inputs: &'g Inputs, findings: &mut Findings<'g>) {
    report(inputs, findings, ": ", |_, pod| match &pod.gate {
        GateAnswer::Here { count, why: Some(why), .. } => Some(format!("`{count}`: {why}")),
        GateAnswer::Here { count, .. } if !WHOLE.contains(&count.as_str()) => {
            Some(format!("`{count}`"))
        }
        GateAnswer::Silent(why) => Some(format!("could not be asked: {why}")),
        _ => None,
    });
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

/// The longest deadline of the gates of each pod, in milliseconds, by its template.
fn deadlines(inputs: &Inputs) -> HashMap<Node<'_>, u64> {
    let mut deadlines: HashMap<_, u64> = HashMap::new();
    for (_, gate, pod) in gated_pods(inputs) {
        let longest = deadlines.entry(pod.template).or_default();
        *longest = gate.deadline_ms.max(*longest);
    }
    deadlines
}

pub(super) fn grace_of_running_pods<'g>(inputs: &'g Inputs, findings: &mut Findings<'g>) {
    let deadlines = LazyCell::new(|| deadlines(inputs));
    report(inputs, findings, ": ", |Running { workload, pod }, LivePod { settings, .. }| {
        let least = deadlines.get(&pod.template)?.div_ceil(1000).saturating_add(AFTER);
        let grace = settings.grace;
        let is_short = grace < least && grace != workload.template.as_ref()?.grace;
        is_short.then(|| format!("{grace} s of grace, and the gate needs {least} s"))
    });
}

pub(super) fn without_hook<'g>(inputs: &'g Inputs, findings: &mut Findings<'g>) {
    let gated = LazyCell::new(|| deadlines(inputs));
    for Running { workload, pod } in running(inputs) {
        let templates = workload.template.iter();
        let mut settings = templates.chain(workload.pods.iter().map(|pod| &pod.settings));
        if gated.contains_key(&pod.template) && !settings.any(PodSettings::asks_gate) {
            findings
                .at(pod.template, "a gate is in these pods, and their stop hook does not ask it");
        }
    }
}
