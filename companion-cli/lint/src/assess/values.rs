//! The rows of values of Istio's gateway chart, in files of their own and in objects of Flux and
//! Argo CD.

use std::collections::HashMap;
use std::path::Path;

use laststream_assess::{ProxyKind, Row, Workload};

use super::facts::CHART_DEFAULTS;
use super::folder;
use super::mesh::{Mesh, selecting};
use super::settings::Settings;
use super::workloads::row;
use manifest_lint::{Inputs, Node, Object, is_gateway_chart_key, of_kind};

/// The chart's name.
const CHART: &str = "gateway";
/// Values that other charts do not have.
const OWN: [&str; 4] = ["networkGateway", CHART_DEFAULTS, "unprivilegedPort", "runAsRoot"];

/// The most files of values that are taken together.
const MOST: usize = 8;
/// Annotations of pods that have a gate.
const GATED: [&str; 2] = ["sidecar.istio.io/statsInclusionSuffixes", "laststream.io/gate-port"];

pub(super) fn rows<'g>(inputs: &'g Inputs, mesh: &Mesh<'g>) -> Vec<Row> {
    let all: Vec<Node<'g>> = inputs.documents().filter(|root| may_be_of_chart(*root)).collect();
    let mut by_folder: HashMap<Option<&Path>, Vec<Node<'g>>> = HashMap::new();
    for root in &all {
        by_folder.entry(folder(*root)).or_default().push(*root);
    }
    let beside = |root: Node<'g>| by_folder.get(&folder(root)).map_or(&[][..], Vec::as_slice);
    let files = all.iter().filter(|root| is_of_chart(**root));
    let files = files.map(|root| (*root, together(*root, beside(*root))));
    let objects = ["HelmRelease", "Application"].into_iter();
    let objects = objects
        .flat_map(|kind| of_kind(inputs, kind))
        .filter_map(|object| Some((object.node, vec![values_of(object)?])));
    files.chain(objects).map(|(place, values)| row_of(inputs, mesh, place, &values)).collect()
}

/// A file of values, and those of its folder that have none of its keys: Helm merges them.
fn together<'g>(root: Node<'g>, beside: &[Node<'g>]) -> Vec<Node<'g>> {
    let mut files = vec![root];
    for other in beside.iter().filter(|other| **other != root).take(MOST) {
        let is_new = |(key, _)| files.iter().all(|file| file.get(key).is_none());
        if other.entries().all(is_new) {
            files.push(*other);
        }
    }
    files
}

fn row_of<'g>(inputs: &'g Inputs, mesh: &Mesh<'g>, place: Node<'g>, values: &[Node<'g>]) -> Row {
    let get = |key: &str| values.iter().find_map(|file| file.get(key));
    let annotations = get("podAnnotations");
    let annotation = |name: &str| annotations.and_then(|map| map.get(name));
    // The labels of its pods are not known, so any gate may be meant.
    let has_gate = GATED.iter().any(|name| annotation(name).is_some());
    let gate = selecting(inputs).map(|(_, gate)| gate).next().filter(|_| has_gate);
    let settings = Settings {
        configs: annotation("proxy.istio.io/config").and_then(Node::embedded).into_iter().collect(),
        variables: get("env").into_iter().chain(get("envVarFrom")).collect(),
        hook: get("lifecycle").and_then(|lifecycle| lifecycle.get("preStop")),
        grace: get("terminationGracePeriodSeconds"),
        is_whole: true,
        gate,
        defaults: mesh.defaults(place),
        ..Settings::default()
    };
    let row = row(inputs, place, settings.proxy(ProxyKind::ChartGateway, mesh), None);
    if !row.workload.kind.is_empty() {
        return row;
    }
    let name = get("name").and_then(Node::text).unwrap_or_default().to_owned();
    let workload = Workload { kind: "values of istio/gateway".to_owned(), name, ..row.workload };
    Row { workload, ..row }
}

/// Whether a document may be a file of values of the chart: all of its keys are the chart's.
fn may_be_of_chart(root: Node<'_>) -> bool {
    let defaults = root.get(CHART_DEFAULTS).into_iter().flat_map(Node::entries);
    root.carrier().is_none()
        && Object::new(root).is_none()
        && root.entries().chain(defaults).all(|(key, _)| is_gateway_chart_key(key))
}

/// Whether one of the values shows that the chart is Istio's.
fn is_of_chart(root: Node<'_>) -> bool {
    let annotations = root.get("podAnnotations").into_iter().flat_map(Node::entries);
    let labels = root.get("labels").into_iter().flat_map(Node::entries);
    let of_istio = |(name, _): (&str, Node<'_>)| name.contains("istio.io/") || name == "istio";
    root.entries().any(|(key, _)| OWN.contains(&key))
        || annotations.chain(labels).any(of_istio)
        || root.get("env").is_some_and(|env| env.get("EXIT_ON_ZERO_ACTIVE_CONNECTIONS").is_some())
}

/// The values in an object that installs the chart; an empty map has none.
fn values_of(object: Object<'_>) -> Option<Node<'_>> {
    let node = object.node;
    let sources = node.all("spec.source|sources[]");
    match object.kind {
        "HelmRelease" => {
            let chart = node.text_of("spec.chart.spec.chart")?;
            let repository = node.text_of("spec.chart.spec.sourceRef.name").unwrap_or_default();
            (chart == CHART && repository.contains("istio")).then_some(())?;
            node.fields("spec.values").or(Some(node))
        }
        _ => {
            let mut sources = sources.filter(|source| {
                source.text_of("chart") == Some(CHART)
                    && source.text_of("repoURL").is_some_and(|url| url.contains("istio"))
            });
            let helm = sources.next()?.get("helm");
            let values = helm.and_then(|helm| {
                helm.get("valuesObject").or_else(|| helm.get("values")?.embedded())
            });
            values.or(Some(node))
        }
    }
}
