//! LS506 and LS507: the statistics of Envoy's own count, which a proxy exports or leaves out.

use laststream_filter::config::wire::{Gate, Scope};
use regex::RegexBuilder;

use crate::modules::{counters, gated_pods, gates};
use crate::users::uses;
use manifest_lint::{
    Findings, Inputs, Node, Pod, Reach, SplitPods, connection_manager, connection_managers,
    listener, whole_bootstraps,
};

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

/// The most patterns of a matcher, and connection managers of a bootstrap, that are looked at. The
/// work would grow with the square of a file with more.
const MOST: usize = 128;

/// A pattern for names of statistics: the node that contains it, its kind and its text.
struct Pattern<'g> {
    node: Node<'g>,
    kind: &'g str,
    text: &'g str,
}

impl Pattern<'_> {
    /// Whether it matches a name. A pattern of an unknown kind, or of a form that Envoy refuses,
    /// is taken for one that does.
    fn matches(&self, name: &str) -> bool {
        match self.kind {
            "exact" => name == self.text,
            "prefix" => name.starts_with(self.text),
            "suffix" => name.ends_with(self.text),
            "contains" => name.contains(self.text),
            "regex" => {
                let mut regex = RegexBuilder::new(&format!("^(?:{})$", self.text));
                regex.size_limit(LARGEST).build().map_or(true, |regex| regex.is_match(name))
            }
            _ => true,
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
    for bootstrap in whole_bootstraps(inputs) {
        let reach = Reach::of(bootstrap);
        if let Some((_, gate)) = gates(inputs).find(|(module, _)| *module.reach() == reach) {
            report_uncounted(inputs, bootstrap, &gate, findings);
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

/// Reports counters in connection managers of a whole bootstrap whose requests Envoy does not
/// export, if it exports those of another one.
fn report_uncounted<'g>(
    inputs: &'g Inputs,
    bootstrap: Node<'g>,
    gate: &Gate,
    findings: &mut Findings<'g>,
) {
    let reach = Reach::of(bootstrap);
    let prefix = |manager: Node<'g>| {
        let prefix = manager.field("stat_prefix")?;
        let is_ignored = gate.admin.ignore.iter().any(|name| prefix.text() == Some(name));
        Some(prefix).filter(|_| !is_ignored)
    };
    let is_exported = |prefix: Node<'g>| {
        let name = format!("http.{}.{ACTIVE}", prefix.text().unwrap_or_default());
        exports(bootstrap, prefix, &name)
    };
    let exported = connection_managers(bootstrap)
        .take(MOST)
        .filter_map(prefix)
        .find(|node| is_exported(*node));
    let Some(exported) = exported.and_then(Node::text) else { return };
    let counters = counters(inputs).filter(|(counter, _)| *counter.reach() == reach);
    let filters = counters.flat_map(|(counter, _)| uses(inputs, counter));
    for node in filters.take(MOST).filter_map(connection_manager).filter_map(prefix) {
        if !is_exported(node) {
            findings.at(node, format!("Envoy exports `{exported}`, and not this one"));
        }
    }
}

/// Whether Envoy exports a statistic of the connection manager around a node. The matcher of a
/// listener takes the place of the bootstrap's.
fn exports(bootstrap: Node<'_>, node: Node<'_>, name: &str) -> bool {
    let metadata = listener(node).and_then(|own| own.fields("metadata.typed_filter_metadata"));
    let in_metadata = metadata.and_then(|metadata| metadata.get("envoy.stats_matcher"));
    let matcher = in_metadata.or_else(|| bootstrap.fields("stats_config.stats_matcher"));
    let Some(matcher) = matcher else { return true };
    let is_in = |list: Node<'_>| {
        let mut patterns = list.list("patterns").take(MOST).filter_map(pattern);
        patterns.any(|pattern| pattern.matches(name))
    };
    !matcher.field("reject_all").is_some_and(Node::is_true)
        && matcher.field("inclusion_list").is_none_or(is_in)
        && !matcher.field("exclusion_list").is_some_and(is_in)
}

/// A pattern of Envoy's API. Letters in any case are not compared here.
fn pattern(node: Node<'_>) -> Option<Pattern<'_>> {
    if let Some(regex) = node.fields("safe_regex.regex") {
        return Some(Pattern { node, kind: "regex", text: regex.text()? });
    }
    let (kind, value) = node.entries().find(|(kind, _)| !kind.starts_with("ignore"))?;
    Some(Pattern { node, kind, text: value.text().unwrap_or_default() })
}
