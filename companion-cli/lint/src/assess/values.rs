//! The rows of values of Istio's gateway chart, in files of their own and in objects of Flux and
//! Argo CD.

use laststream_assess::{Kind, Row, Workload};

use super::mesh::Mesh;
use super::settings::Settings;
use super::workloads::row;
use crate::inputs::Inputs;
use crate::node::Node;
use crate::objects::{Object, of_kind};
use crate::pods::is_gateway_chart_key;

/// The chart's name.
const CHART: &str = "gateway";
/// Values that other charts do not have.
const OWN: [&str; 4] =
    ["networkGateway", "_internal_defaults_do_not_set", "unprivilegedPort", "runAsRoot"];

pub(super) fn rows<'g>(inputs: &'g Inputs, mesh: &Mesh<'g>) -> Vec<Row> {
    let files = inputs.documents().filter(|root| root.carrier().is_none() && is_of_chart(*root));
    let files = files.map(|root| (root, root));
    let objects = ["HelmRelease", "Application"].into_iter();
    let objects = objects
        .flat_map(|kind| of_kind(inputs, kind))
        .filter_map(|object| Some((object.node, values_of(object)?)));
    files.chain(objects).map(|(place, values)| row_of(inputs, mesh, place, values)).collect()
}

fn row_of<'g>(inputs: &'g Inputs, mesh: &Mesh<'g>, place: Node<'g>, values: Node<'g>) -> Row {
    let config = values.get("podAnnotations").and_then(|map| map.get("proxy.istio.io/config"));
    let hook = values.fields("lifecycle.preStop");
    let settings = Settings {
        configs: config.and_then(Node::embedded).into_iter().collect(),
        variables: values.get("env").into_iter().chain(values.get("envVarFrom")).collect(),
        hook,
        grace: values.get("terminationGracePeriodSeconds"),
        is_whole: true,
        ..Settings::default()
    };
    let row = row(inputs, place, settings.proxy(Kind::ChartGateway, mesh), None);
    if !row.workload.kind.is_empty() {
        return row;
    }
    let name = values.text_of("name").unwrap_or_default().to_owned();
    let workload = Workload { kind: "values of istio/gateway".to_owned(), name, ..row.workload };
    Row { workload, ..row }
}

/// Whether a document is a file of values of the chart: all of its keys are the chart's, and one
/// shows that it is Istio's.
fn is_of_chart(root: Node<'_>) -> bool {
    if Object::new(root).is_some() || !root.entries().all(|(key, _)| is_gateway_chart_key(key)) {
        return false;
    }
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
