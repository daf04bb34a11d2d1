//! Pods beside their templates, and their stop hooks as they were injected.

use std::collections::{BTreeMap, HashMap};

use crate::live::{ClusterObject, Live, LivePod, Workload};
use crate::modules::gated_pods;
use laststream_render::{fixed_options, question};
use manifest_lint::{DEFAULT_GRACE, Findings, Hook, Inputs, Node, Pod, of_kind, pods, stop_hooks};

/// Running pods, with the object among the sources that makes them.
pub(super) struct Running<'g> {
    pub(super) workload: &'g Workload,
    pub(super) pod: Pod<'g>,
}

/// The workloads of a cluster that have pods.
pub(super) fn running(inputs: &Inputs) -> Vec<Running<'_>> {
    let by_object: HashMap<&ClusterObject, &Workload> =
        Live::workloads(inputs).map(|workload| (&workload.object, workload)).collect();
    let of = |pod: Pod<'_>| inputs.source(pod.template.tree)?.object.as_ref();
    let templates = pods(inputs).filter(|_| !by_object.is_empty());
    templates.filter_map(|pod| Some(Running { workload: by_object.get(of(pod)?)?, pod })).collect()
}

/// Names of pods for a message: at most three of them.
fn named(pods: &[&LivePod], all: usize) -> String {
    const SHOWN: usize = 3;
    let mut names: Vec<&str> = pods.iter().map(|pod| pod.name.as_str()).collect();
    names.sort_unstable();
    let more = names.len().saturating_sub(SHOWN);
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    names.truncate(SHOWN);
    format!("{} of {all} pods ({}{more})", pods.len(), names.join(", "))
}

/// The pods with the same words, by these words.
pub(super) fn grouped<'g>(
    pods: &'g [LivePod],
    words: impl Fn(&'g LivePod) -> Option<String>,
) -> BTreeMap<String, Vec<&'g LivePod>> {
    let mut groups: BTreeMap<String, Vec<&LivePod>> = BTreeMap::new();
    for (words, pod) in pods.iter().filter_map(|pod| Some((words(pod)?, pod))) {
        groups.entry(words).or_default().push(pod);
    }
    groups
}

/// Reports the pods for which there are words, those with the same words at once.
pub(super) fn report<'g>(
    inputs: &'g Inputs,
    findings: &mut Findings<'g>,
    joint: &str,
    words: impl Fn(&Running<'g>, &'g LivePod) -> Option<String>,
) {
    for running in running(inputs) {
        let all = &running.workload.pods;
        for (words, pods) in grouped(all, |pod| words(&running, pod)) {
            let pods = named(&pods, all.len());
            findings.at(running.pod.template, format!("{pods}{joint}{words}"));
        }
    }
}

pub(super) fn not_rolled<'g>(inputs: &'g Inputs, findings: &mut Findings<'g>) {
    report(inputs, findings, " have ", |Running { workload, .. }, pod| {
        let template = workload.template.as_ref()?;
        // The webhook's own hook is in no template: the newest pod shows it.
        let newest = workload.pods.first().filter(|pod| pod.settings.asks_gate());
        let hook = template.hook.as_ref().or_else(|| newest?.settings.hook.as_ref());
        template.differences(hook, &pod.settings)
    });
}

/// The stop hooks of running pods that ask a gate through `pilot-agent wait`.
fn waits(inputs: &Inputs) -> Vec<(Hook<'_>, Pod<'_>)> {
    let running: HashMap<Node<'_>, Pod<'_>> =
        running(inputs).into_iter().map(|Running { pod, .. }| (pod.template, pod)).collect();
    let asks = |hook: &Hook<'_>| {
        hook.runs_agent("wait") && hook.option("--url").is_some_and(|url| url.contains("/prestop"))
    };
    let hooks = stop_hooks(inputs).filter(|_| !running.is_empty()).filter(asks);
    hooks.filter_map(|hook| Some((hook, *running.get(&hook.pod()?.template)?))).collect()
}

pub(super) fn hook_differs<'g>(inputs: &'g Inputs, findings: &mut Findings<'g>) {
    for (hook, _) in waits(inputs) {
        let url = hook.option("--url").unwrap_or_default();
        let words = hook.words();
        let mut missing: Vec<String> = fixed_options().to_vec();
        missing.retain(|option| !words.contains(&option.as_str()));
        if !url.contains(&question()) {
            missing.insert(0, question());
        }
        if let Some(command) = hook.command().filter(|_| !missing.is_empty()) {
            let missing: Vec<String> = missing.iter().map(|part| format!("`{part}`")).collect();
            findings.at(command, format!("without {}", missing.join(", ")));
        }
    }
}

/// The longest time that the nodes of a Karpenter pool leave to their pods.
const POOL_LIMIT: &str = "spec.template.spec.terminationGracePeriod";
/// The option of the cluster autoscaler for the same, and its default, in seconds.
const AUTOSCALER_LIMIT: (&str, u64) = ("--max-graceful-termination-sec=", 600);

/// The times in seconds that nodes leave to their pods, with the nodes that set them.
fn limits(inputs: &Inputs) -> impl Iterator<Item = (Node<'_>, u64)> {
    let pools = of_kind(inputs, "NodePool").filter_map(|pool| pool.node.fields(POOL_LIMIT));
    let pools = pools.filter_map(|limit| Some((limit, limit.millis()? / 1000)));
    let containers = pods(inputs).flat_map(|pod| pod.spec.list("containers"));
    let autoscalers = containers.filter(|container| {
        container.text_of("image").is_some_and(|image| image.contains("cluster-autoscaler"))
    });
    pools.chain(autoscalers.map(|container| {
        let mut words = container.all("command[]|args[]");
        let limit = |word: Node<'_>| word.text()?.strip_prefix(AUTOSCALER_LIMIT.0)?.parse().ok();
        let setting = words.find_map(|word| Some((word, limit(word)?)));
        setting.unwrap_or((container, AUTOSCALER_LIMIT.1))
    }))
}

pub(super) fn cut_by_nodes<'g>(inputs: &'g Inputs, findings: &mut Findings<'g>) {
    let limits: Vec<_> = limits(inputs).collect();
    if limits.is_empty() {
        return;
    }
    let grace = |pod: Pod<'g>| pod.grace().and_then(Node::number).unwrap_or(DEFAULT_GRACE);
    let gated = gated_pods(inputs).into_iter().map(|(.., pod)| (grace(pod), pod.object.name()));
    let Some((longest, name)) = gated.max() else { return };
    for (node, seconds) in limits.into_iter().filter(|(_, seconds)| *seconds < longest) {
        let text = format!("`{name}` has {longest} s of grace, and its nodes leave {seconds} s");
        findings.at(node, text);
    }
}
