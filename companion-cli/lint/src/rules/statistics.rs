//! LS506 and LS507: the statistics of Envoy's own count, which a proxy exports or leaves out.

use laststream_filter::config::wire::{Gate, Scope};
use regex::RegexBuilder;

use crate::modules::gated_pods;
use manifest_lint::{Findings, Inputs, Node, Pod, SplitPods};

const SUFFIXES: &str = "sidecar.istio.io/statsInclusionSuffixes";
/// Annotations, each with the list of `proxyStatsMatcher` that Istio uses only without the
/// annotation, and the kind of its patterns.
const INCLUSIONS: [(&str, &str, &str); 3] = [
    (SUFFIXES, "inclusion_suffixes", "suffix"),
    ("sidecar.istio.io/statsInclusionPrefixes", "inclusion_prefixes", "prefix"),
    ("sidecar.istio.io/statsInclusionRegexps", "inclusion_regexps", "regex"),
];
const ACTIVE: &str = "downstream_rq_active";
/// The statistics of Envoy's own count: requests in flight, and all requests so far.
pub(super) const ENVOY_COUNT_STATS: [&str; 2] = [ACTIVE, "downstream_rq_total"];

/// The size of the largest regular expression that is compiled; bytes.
const LARGEST: usize = 65_536;

/// The most patterns that are looked at. The work would grow with the square of a file with more.
const MOST: usize = 128;

/// A pattern for names of statistics: the node that contains it, its kind and its text.
struct Pattern<'g> {
    node: Node<'g>,
    kind: &'g str,
    text: &'g str,
}

impl Pattern<'_> {
    /// Whether it matches a name. A pattern that Envoy refuses is taken for one that does.
    fn matches(&self, name: &str) -> bool {
        match self.kind {
            "prefix" => name.starts_with(self.text),
            "suffix" => name.ends_with(self.text),
            _ => {
                let mut regex = RegexBuilder::new(&format!("^(?:{})$", self.text));
                regex.size_limit(LARGEST).build().map_or(true, |regex| regex.is_match(name))
            }
        }
    }

    /// Whether it may match requests in flight of a connection manager that it names.
    fn names_manager(&self) -> bool {
        let of_manager = |text: &str| {
            text.strip_prefix("http.").is_some_and(|rest| match rest.split_once(".downstream_") {
                Some((_, statistic)) => ACTIVE.starts_with(&format!("downstream_{statistic}")),
                None => !rest.is_empty(),
            })
        };
        match self.kind {
            "prefix" => of_manager(self.text),
            "regex" => {
                let text = self.text.trim_start_matches('^').replace("\\.", ".");
                text.contains(ACTIVE) || of_manager(text.trim_end_matches(".*"))
            }
            _ => self.text.ends_with(ACTIVE),
        }
    }
}

pub(super) fn no_request_gauge<'g>(inputs: &'g Inputs, findings: &mut Findings<'g>) {
    for (.., pod, patterns) in patterns_of_pods(inputs) {
        let is_named = |name: &&str| patterns.iter().any(|pattern| pattern.text.contains(name));
        if let Some(missing) = ENVOY_COUNT_STATS.into_iter().find(|name| !is_named(name)) {
            let place = pod
                .annotation(SUFFIXES)
                .or_else(|| pod.template.get("metadata"))
                .unwrap_or(pod.template);
            let pod = pod.object.name();
            findings.at(place, format!("`{missing}` is not among the statistics of `{pod}`"));
        }
    }
}

pub(super) fn single_managers<'g>(inputs: &'g Inputs, findings: &mut Findings<'g>) {
    for (gate, _, patterns) in patterns_of_pods(inputs) {
        let is_whole = |scope| {
            let names = any_manager(scope);
            patterns.iter().any(|pattern| names.iter().any(|name| pattern.matches(name)))
        };
        if patterns.len() > MOST || gate.scopes.iter().copied().all(is_whole) {
            continue;
        }
        if let Some(narrow) = patterns.iter().find(|pattern| pattern.names_manager()) {
            let message = format!("`{}` leaves other connection managers out", narrow.text);
            findings.in_text(narrow.node, narrow.text, message);
        }
    }
}

/// The statistic of a connection manager of Istio that no pattern can have been written for, with
/// and without the semicolon at which newer versions of Istio end the name.
fn any_manager(scope: Scope) -> [String; 2] {
    let direction = if scope == Scope::Inbound { "inbound" } else { "outbound" };
    ["", ";"].map(|end| format!("http.{direction}_192.0.2.1_1{end}.{ACTIVE}"))
}

/// The pods of gates, each with what annotations and matchers add to Istio's own statistics.
fn patterns_of_pods(inputs: &Inputs) -> impl Iterator<Item = (Gate, Pod<'_>, Vec<Pattern<'_>>)> {
    let is_of_mesh = |node: &Node<'_>| node.has_keys(&["proxyStatsMatcher", "defaultConfig"]);
    let of_mesh: Vec<_> = inputs.keyed("proxyStatsMatcher").filter(is_of_mesh).collect();
    let parts = SplitPods::of(inputs);
    gated_pods(inputs).into_iter().map(move |(_, gate, pod)| {
        let patterns = patterns_of(&parts.with_others(pod), &of_mesh);
        (gate, pod, patterns)
    })
}

/// The patterns that annotations and matchers add for the parts of a pod. The pod's own matcher
/// replaces that of the mesh.
fn patterns_of<'g>(parts: &[Pod<'g>], of_mesh: &[Node<'g>]) -> Vec<Pattern<'g>> {
    let settings: Vec<Node<'g>> =
        parts.iter().filter_map(|part| part.proxy_config()?.get("proxyStatsMatcher")).collect();
    let matchers: &[Node<'g>] = if settings.is_empty() { of_mesh } else { &settings };
    let mut patterns = Vec::new();
    for (annotation, list, kind) in INCLUSIONS {
        let nodes = parts.iter().filter_map(|part| part.annotation(annotation));
        let annotated = nodes.flat_map(|node| {
            let texts = node.text().unwrap_or_default().split(',');
            texts.filter(|text| !text.is_empty()).map(move |text| Pattern { node, kind, text })
        });
        let mut annotated = annotated.peekable();
        if annotated.peek().is_some() {
            patterns.extend(annotated);
        } else {
            let items = matchers.iter().flat_map(|matcher| matcher.list(list));
            let items = items.filter_map(|node| Some(Pattern { node, kind, text: node.text()? }));
            patterns.extend(items);
        }
    }
    patterns
}
