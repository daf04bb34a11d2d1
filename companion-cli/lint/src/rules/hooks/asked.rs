//! What stop hooks ask of a gate: LS802, LS803, LS806 in files. `rules::live` judges more of
//! running pods.

use std::collections::{BTreeSet, HashMap, HashSet};

use laststream_base::time_span::milliseconds;
use laststream_render::question;

use crate::gate_programs::{COMMAND, gate_programs, pod_spec};
use crate::modules::{gated_pods, gates, starts_by_agent};
use crate::users::ports;
use manifest_lint::words::nearest_of;
use manifest_lint::{Findings, Hook, Inputs, Node, SplitPods, pods, stop_hooks};

/// The path that the gate answers.
const PATH: &str = "prestop";
/// The programs of stop hooks, their commands, and the options of these.
const PROGRAMS: &str = "pilot-agent laststream laststream-hook";
const COMMANDS: &str = "wait prestop request";
/// The options of a gate that is a program.
const GATE_OPTIONS: &str = "--config --config-json --envoy --listen --secret-file";
const OPTIONS: &str = "--gate --interval --periodMillis --requestTimeoutMillis --secret-file \
    --timeout --timeoutSeconds --url";

/// A question to the gate: the item of the command that has it, its port, and its path.
struct Question<'g> {
    item: Node<'g>,
    port: Option<u64>,
    path: &'g str,
}

impl<'g> Question<'g> {
    fn of(hook: Hook<'g>) -> Option<Self> {
        let options = ["--url", "--gate"].into_iter();
        let (option, url) = options.filter_map(|name| Some((name, hook.option(name)?))).next()?;
        let rest = url.split_once("://").map_or(url, |(_, rest)| rest);
        let (authority, path) = rest.split_once('/').unwrap_or((rest, ""));
        let port = authority.rsplit_once(':').and_then(|(_, port)| port.parse().ok());
        let question = Self { item: hook.item_with(option)?, port, path };
        // A hook may also ask the agent, or an app.
        let asks_gate = option == "--gate" || nearest_of(question.name(), PATH).is_some();
        asks_gate.then_some(question)
    }

    fn name(&self) -> &'g str {
        self.path.split('?').next().unwrap_or_default()
    }
}

fn questions(inputs: &Inputs) -> impl Iterator<Item = (Hook<'_>, Question<'_>)> {
    stop_hooks(inputs).filter_map(|hook| Some((hook, Question::of(hook)?)))
}

pub(super) fn other_question<'g>(inputs: &'g Inputs, findings: &mut Findings<'g>) {
    for (hook, asked) in questions(inputs).filter(|(hook, _)| hook.runs_agent("wait")) {
        let held = asked.path.split_once("wait=").and_then(|(_, time)| milliseconds(time));
        let option = hook.option("--requestTimeoutMillis");
        // The agent's own default is 500 ms.
        let patience = option.map_or(Some(500), |text| text.parse().ok());
        let too_short = held.zip(patience).filter(|(held, patience)| patience <= held);
        if asked.name() != PATH {
            let message = format!("the gate has no `/{}`: write `{}`", asked.name(), question());
            findings.at(asked.item, message);
        } else if let Some((held, patience)) = too_short {
            let place = hook.item_with("--requestTimeoutMillis").unwrap_or(asked.item);
            let message = format!(
                "the gate holds its answer for {held} ms, and the agent waits {patience} ms"
            );
            findings.at(place, message);
        }
    }
    for item in stop_hooks(inputs).flat_map(|hook| hook.node.list("exec.command")) {
        let text = item.text().unwrap_or_default();
        let word = text.split('=').next().unwrap_or_default();
        let known = match item.raw().map(|raw| raw.index) {
            Some(0) => PROGRAMS,
            Some(1) => COMMANDS,
            _ => OPTIONS,
        };
        misspelt(item, word.rsplit('/').next().unwrap_or_default(), known, findings);
    }
    let programs = gate_programs(inputs).into_values();
    for (index, (item, text)) in programs.flat_map(|program| program.words().enumerate()) {
        let word = text.split('=').next().unwrap_or_default();
        match index {
            0 => misspelt(item, word, COMMAND, findings),
            _ if word.starts_with('-') => misspelt(item, word, GATE_OPTIONS, findings),
            _ => {} // a value
        }
    }
}

fn misspelt<'g>(item: Node<'g>, word: &str, known: &str, findings: &mut Findings<'g>) {
    if let Some(meant) = nearest_of(word, known).filter(|meant| *meant != word) {
        findings.at(item, format!("`{word}` is not known here: it is `{meant}`"));
    }
}

pub(super) fn other_port<'g>(inputs: &'g Inputs, findings: &mut Findings<'g>) {
    let all: BTreeSet<u64> = gates(inputs).flat_map(|(module, _)| ports(inputs, module)).collect();
    let mut of_pods: HashMap<Node<'g>, BTreeSet<u64>> = HashMap::new();
    for (module, _, pod) in gated_pods(inputs) {
        of_pods.entry(pod.template).or_default().extend(ports(inputs, module));
    }
    let programs: HashMap<_, _> = gate_programs(inputs)
        .into_iter()
        .filter_map(|(spec, program)| Some((spec, BTreeSet::from([program.port()?]))))
        .collect();
    for (hook, asked) in questions(inputs) {
        let pod = hook.pod();
        let of_program = pod_spec(hook.node).and_then(|spec| programs.get(&spec));
        let own = of_program.or_else(|| of_pods.get(&pod?.template));
        // A whole pod that no gate of these files selects may have another gate.
        if own.is_none() && pod.is_some_and(|pod| pod.is_whole() && !pod.is_overlay()) {
            continue;
        }
        let gates = own.unwrap_or(&all);
        let Some((port, gate)) = asked.port.zip(gates.first()) else { continue };
        if !gates.contains(&port) {
            let message = format!("the hook asks {port}, and the gate listens on {gate}");
            findings.at(asked.item, message);
        }
    }
}

/// Proxy containers that are written for a hook, and have none.
pub(super) fn without_hook<'g>(inputs: &'g Inputs, findings: &mut Findings<'g>) {
    if gates(inputs).all(|(_, gate)| starts_by_agent(&gate)) {
        return;
    }
    let parts = SplitPods::of(inputs);
    let by_agent = gated_pods(inputs).into_iter().filter(|(_, gate, _)| starts_by_agent(gate));
    let by_agent: HashSet<_> = by_agent.map(|(.., pod)| pod.template).collect();
    let partial = pods(inputs).filter(|pod| pod.is_overlay() || !pod.is_whole());
    for pod in partial.filter(|pod| !by_agent.contains(&pod.template)) {
        let mut containers = pod.proxies_named(&["istio-proxy"]);
        let has_hook = parts.with_others(pod).into_iter().any(|part| part.has_own_hook());
        if let Some(container) = containers.next().filter(|_| !has_hook) {
            findings
                .at(container, "a gate is in these files, and no stop hook of the proxy asks it");
        }
    }
}
