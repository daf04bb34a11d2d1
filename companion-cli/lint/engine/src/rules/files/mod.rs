//! LS001 to LS005: files that cannot be read, or are not read as they look.

use crate::plain::Meaning;
use crate::{
    Checks, Finding, Findings, Inputs, Node, Object, Rule, is_in_secret, is_secret,
    is_string_value, object_of,
};
use manifest_text::yaml::tree::Position;

pub(crate) const CHECKS: Checks = &[
    ("LS001", unreadable),
    ("LS002", key_twice),
    ("LS003", word_for_text),
    ("LS004", inflated),
    ("LS005", unknown_ignored),
    (FILLED_IN, |_, _| {}), // made of what the other rules have skipped
];

pub(crate) const FILLED_IN: &str = "LS010";

/// The finding about all values that the rules have skipped.
pub(crate) fn filled_in_later<'g>(
    rule: &'static Rule,
    inputs: &'g Inputs,
    mut skipped: Vec<Node<'g>>,
) -> Option<Finding> {
    skipped.sort_by_key(|node| (node.tree, node.id));
    skipped.dedup();
    let first = *skipped.first()?;
    if inputs.assume.ignored.contains(&FILLED_IN) {
        return None;
    }
    let variable = first.variable().unwrap_or_default();
    let message = match skipped.len() {
        1 => format!("`{variable}` is not known yet, so 1 value was not judged"),
        count => {
            format!("`{variable}` and others are not known yet, so {count} values were not judged")
        }
    };
    let mut findings = Findings::new(rule, inputs);
    findings.surely_at(first, message);
    findings.list.pop()
}

/// Whether a finding of this rule means that objects of the file are missing.
pub(crate) fn hides_objects(rule: &Rule) -> bool {
    ["LS001", "LS004"].contains(&rule.code)
}

fn unreadable<'g>(inputs: &'g Inputs, findings: &mut Findings<'g>) {
    for (number, source) in (0_u32..).zip(&inputs.sources) {
        if let Err((line, why)) = &source.text {
            findings.in_file(number, Position { line: *line, column: 1 }, why.clone());
        }
        for slip in &inputs.tree(number).errors {
            findings.in_file(number, slip.position, slip.message.clone());
        }
    }
}

fn key_twice<'g>(inputs: &'g Inputs, findings: &mut Findings<'g>) {
    for tree in inputs.trees() {
        // A map can have one key many times, and a look at a map takes as long as it has entries.
        let mut last = None;
        for &(again, first) in &inputs.tree(tree).twice {
            let key = |id| inputs.node(tree, id);
            let line = key(first).position().line;
            let map = key(again).parent();
            let is_secret = match last {
                Some((same, known)) if same == map => known,
                _ => map.is_some_and(is_in_secret),
            };
            last = Some((map, is_secret));
            match map.filter(|_| is_secret) {
                Some(map) => findings.at(map, format!("a key of line {line} stands here again")),
                None => {
                    let text = key(again).text().unwrap_or_default();
                    findings.at(key(again), format!("`{text}` stands already in line {line}"));
                }
            }
        }
    }
}

/// Keys whose values are maps of texts; the first two below `metadata` only.
const TEXT_MAPS: &str = "labels annotations matchLabels proxyMetadata environmentVariables \
    nodeSelector key_values";
/// Keys whose values are lists of texts.
const TEXT_LISTS: [&str; 3] = ["command", "args", "type_urls"];
/// Keys whose values are texts, in EnvoyFilters.
const TEXTS: &str =
    "name uri sha256 vm_id root_id runtime stat_prefix proxyVersion remove failure_policy";

fn word_for_text<'g>(inputs: &'g Inputs, findings: &mut Findings<'g>) {
    let mut places = text_places(inputs);
    places.sort_by_key(|node| (node.tree, node.id));
    places.dedup();
    for node in places {
        let noun = match node.meaning() {
            Some(Meaning::Bool(true)) => "the boolean true",
            Some(Meaning::Bool(false)) => "the boolean false",
            Some(Meaning::Number) => "a number",
            _ => continue,
        };
        if !in_object(node) {
            continue;
        }
        let text = node.text().unwrap_or_default();
        let (what, hint) = match is_secret(node) {
            true => ("this".to_owned(), String::new()),
            false => (format!("`{text}`"), format!(": write \"{text}\"")),
        };
        let message = format!("{what} is {noun} to Kubernetes, and a text is expected{hint}");
        findings.at(node, message);
    }
}

/// The values for which Kubernetes, or Istio below `patch.value`, expects a text.
fn text_places<'g>(inputs: &'g Inputs) -> Vec<Node<'g>> {
    let below_metadata = |node: &Node<'_>| {
        let metadata = node.parent().filter(|above| above.key_text() == Some("metadata"));
        metadata.and_then(Node::parent).is_some_and(|owner| {
            owner.get("kind").is_some() || object_of(owner).is_some_and(is_of_kubernetes)
        })
    };
    let values = |map: Node<'g>| map.entries().map(|(_, value)| value).collect::<Vec<_>>();
    let mut places = Vec::new();
    for key in TEXT_MAPS.split(' ') {
        let anywhere = !["labels", "annotations"].contains(&key);
        places.extend(
            inputs.keyed(key).filter(|map| anywhere || below_metadata(map)).flat_map(values),
        );
    }
    places.extend(TEXT_LISTS.iter().flat_map(|key| inputs.keyed(key)).flat_map(Node::items));
    places.extend(
        ["name", "namespace"].iter().flat_map(|key| inputs.keyed(key)).filter(below_metadata),
    );
    places.extend(
        inputs.keyed("env").flat_map(Node::items).filter_map(|variable| variable.get("value")),
    );
    // `name` of a socket option is a number.
    let in_patch = |node: &Node<'_>| {
        let mut keys = node.upwards().filter_map(Node::key_text);
        keys.any(|key| key == "configPatches")
            && node.upwards().all(|above| above.key_text() != Some("socket_options"))
    };
    places.extend(TEXTS.split(' ').flat_map(|key| inputs.keyed(key)).filter(in_patch));
    places
        .extend(inputs.keyed("value").filter(|value| value.parent().is_some_and(is_string_value)));
    let of_config_map = |data: &Node<'_>| {
        data.parent().and_then(|object| object.text_of("kind")) == Some("ConfigMap")
    };
    places.extend(inputs.keyed("data").filter(of_config_map).flat_map(values));
    places
}

/// Whether the object's API is Kubernetes' own. In custom resources, the CRD decides what a nested
/// `metadata` may hold.
fn is_of_kubernetes(object: Object<'_>) -> bool {
    let group = object.group();
    !group.contains('.') || group.ends_with(".k8s.io")
}

/// Whether a node is in an object that is not a CRD or for istioctl. In Helm values, templates turn
/// words into texts; in CRDs, these keys are fields of a schema; istioctl makes texts of them.
fn in_object(node: Node<'_>) -> bool {
    let in_values = || node.upwards().any(|up| up.has_keys(&["values", "spec"]));
    object_of(node).is_some_and(|object| match object.kind {
        "CustomResourceDefinition" | "IstioOperator" => false,
        "HelmRelease" => !in_values(),
        _ => true,
    })
}

fn inflated<'g>(inputs: &'g Inputs, findings: &mut Findings<'g>) {
    for tree in inputs.trees() {
        for &id in &inputs.tree(tree).inflated {
            let message = "the document is more than ten times as large as it looks";
            findings.at(inputs.node(tree, id), message);
        }
    }
}

fn unknown_ignored<'g>(inputs: &'g Inputs, findings: &mut Findings<'g>) {
    for tree in inputs.trees() {
        for mark in crate::ignore::ignore_comments(inputs, tree) {
            let position = inputs.in_file(tree, Position { line: mark.line, column: 1 });
            let is_unknown = |code: &&String| !inputs.program.codes.contains(&code.as_str());
            for code in mark.codes.iter().filter(is_unknown) {
                let message = format!("there is no rule `{code}`");
                findings.in_file(inputs.file_of(tree), position, message);
            }
        }
    }
}
