//! The answers of running gates, and gates beside the pods that they are in.

use std::cell::LazyCell;
use std::collections::{HashMap, HashSet};

use laststream_filter::config::wire::Gate;

use super::pods::{Running, grouped, report, running};
use crate::live::{GateAnswer, LivePod, PodSettings};
use crate::modules::{gated_pods, starts_by_agent};
use crate::rules::grace::deadlines::after;
use manifest_lint::{Findings, Inputs, Node, Pod};

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

/// The longest time that the gates of each pod need, in seconds, by its template.
fn needed_grace(inputs: &Inputs) -> HashMap<Node<'_>, u64> {
    let mut needed: HashMap<_, u64> = HashMap::new();
    for (_, gate, pod) in gated_pods(inputs) {
        let longest = needed.entry(pod.template).or_default();
        *longest = gate.deadline_ms.div_ceil(1000).saturating_add(after(&gate)).max(*longest);
    }
    needed
}

pub(super) fn grace_of_running_pods<'g>(inputs: &'g Inputs, findings: &mut Findings<'g>) {
    let needed = LazyCell::new(|| needed_grace(inputs));
    report(inputs, findings, ": ", |Running { workload, pod }, LivePod { settings, .. }| {
        let least = *needed.get(&pod.template)?;
        let grace = settings.grace;
        let is_short = grace < least && grace != workload.template.as_ref()?.grace;
        is_short.then(|| format!("{grace} s of grace, and the gate needs {least} s"))
    });
}

pub(super) fn without_hook<'g>(inputs: &'g Inputs, findings: &mut Findings<'g>) {
    let by_hook = |(_, gate, pod): (_, Gate, Pod<'g>)| (!starts_by_agent(&gate)).then_some(pod);
    let gated: LazyCell<HashSet<_>, _> = LazyCell::new(|| {
        let pods = gated_pods(inputs).into_iter().filter_map(by_hook);
        pods.map(|pod| pod.template).collect()
    });
    for Running { workload, pod } in running(inputs) {
        let templates = workload.template.iter();
        let mut settings = templates.chain(workload.pods.iter().map(|pod| &pod.settings));
        if gated.contains(&pod.template) && !settings.any(PodSettings::asks_gate) {
            findings
                .at(pod.template, "a gate is in these pods, and their stop hook does not ask it");
        }
    }
}
