//! The proxies that get a part of a change, and the time that their streams have left.

use super::GATEWAY_DRAIN;
use super::pairs::Pair;
use crate::envoy_filter::patch_of;
use crate::inputs::Inputs;
use crate::node::Node;
use crate::objects::{Object, ROOT_NAMESPACE};
use crate::pods::{Pod, pods};
use laststream_base::time_span::TimeSpan;
use laststream_policy::ISTIO_DRAIN;

const DRAIN_DURATION: &str = "drainDuration";
/// Kinds that apply to proxies of every namespace. `exportTo`, which can limit them, is not
/// evaluated here.
const EVERYWHERE: [&str; 6] =
    ["ConfigMap", "Gateway", "VirtualService", "DestinationRule", "Service", "ServiceEntry"];
/// The most workloads that a message names.
const MOST_NAMED: usize = 5;

pub(super) struct Proxies<'g> {
    pub(super) namespace: Option<&'g str>,
    pub(super) labels: Vec<(&'g str, &'g str)>,
    pub(super) targets: Vec<String>,
    /// Whether the object applies only to proxies of its namespace.
    pub(super) is_of_namespace: bool,
}

impl<'g> Proxies<'g> {
    pub(super) fn of(pair: &Pair<'g>) -> Self {
        let object = pair.latest();
        let text = |target: Node<'g>, key| target.text_of(key).unwrap_or("?");
        let selector = object.and_then(selector);
        let labels = selector.into_iter().flat_map(Node::entries);
        let labels = labels.filter_map(|(key, value)| Some((key, value.text()?))).collect();
        let targets = object.into_iter().flat_map(Object::policy_targets);
        let targets =
            targets.map(|target| format!("{} `{}`", text(target, "kind"), text(target, "name")));
        let namespace = object.and_then(Object::namespace);
        let kind = object.map_or("", |object| object.kind);
        let is_of_namespace = namespace != Some(ROOT_NAMESPACE) && !EVERYWHERE.contains(&kind);
        Self { namespace, labels, targets: targets.collect(), is_of_namespace }
    }

    /// The proxies as text for a message.
    pub(super) fn describe(&self, node: Node<'_>, inputs: &'g Inputs) -> String {
        let context = match patch_of(node).map(|patch| patch.context()) {
            Some("GATEWAY") => "gateways: ",
            Some("SIDECAR_INBOUND") => "inbound, sidecars: ",
            Some("SIDECAR_OUTBOUND") => "outbound, sidecars: ",
            Some("WAYPOINT") => "waypoints: ",
            _ => "",
        };
        let space = match self.namespace {
            _ if !self.is_of_namespace => "in every namespace".into(),
            Some(namespace) => format!("in namespace `{namespace}`"),
            None => "in its namespace".into(),
        };
        if !self.targets.is_empty() {
            return format!("{context}{} {space}", self.targets.join(", "));
        }
        let labels: Vec<String> =
            self.labels.iter().map(|(key, value)| format!("`{key}: {value}`")).collect();
        let who = match labels.join(", ") {
            none if none.is_empty() => "every proxy".to_owned(),
            labels => format!("pods with {labels}"),
        };
        format!("{context}{who} {space}{}", self.named(inputs))
    }

    fn named(&self, inputs: &'g Inputs) -> String {
        let mut names: Vec<&str> = self.pods(inputs).map(|pod| pod.object.name()).collect();
        names.sort_unstable();
        names.dedup();
        let more = names.len().saturating_sub(MOST_NAMED);
        names.truncate(MOST_NAMED);
        let names: Vec<String> = names.into_iter().map(|name| format!("`{name}`")).collect();
        match (names.is_empty(), more) {
            (true, _) => String::new(),
            (false, 0) => format!(" ({})", names.join(", ")),
            (false, more) => format!(" ({} and {more} more)", names.join(", ")),
        }
    }

    /// The pods of the new files that the object selects by labels; none if it has targets.
    fn pods(&self, inputs: &'g Inputs) -> impl Iterator<Item = Pod<'g>> {
        let pods = pods(inputs).filter(|_| self.targets.is_empty());
        pods.filter(|pod| !is_old(inputs, pod.spec)).filter(|pod| {
            let labels = pod.labels();
            let is_near = match (self.namespace, pod.namespace()) {
                (Some(own), Some(theirs)) => !self.is_of_namespace || own == theirs,
                _ => true,
            };
            is_near && self.labels.iter().all(|label| labels.contains(label))
        })
    }

    /// The time that Envoy keeps the streams, as text: the shortest drain time of the selected
    /// proxies.
    pub(super) fn time_left(&self, inputs: &'g Inputs) -> String {
        let common = common_time(inputs);
        let own = |pod: Pod<'g>| span(pod.proxy_config()?.get(DRAIN_DURATION)?);
        let mut times: Vec<_> = self.pods(inputs).map(|pod| own(pod).or(common)).collect();
        if self.labels.is_empty() || times.is_empty() {
            times.push(common); // proxies outside of these files get it, too
        }
        let has_default = times.contains(&None);
        let shortest = times.into_iter().flatten().min();
        match shortest.filter(|time| !has_default || *time <= ISTIO_DRAIN) {
            Some(time) => format!("; streams that are older have {time} (`{DRAIN_DURATION}`)"),
            None => format!(
                "; streams that are older have {ISTIO_DRAIN} (Istio's default for proxies without \
                 `{DRAIN_DURATION}`)"
            ),
        }
    }
}

/// The same for the proxies of Envoy Gateway, which start with the `drainTimeout` of their
/// EnvoyProxy.
pub(super) fn time_at_envoy_gateway(inputs: &Inputs) -> String {
    let times =
        inputs.keyed("drainTimeout").filter(|node| node.has_keys(&["drainTimeout", "shutdown"]));
    match times.filter_map(span).min() {
        Some(time) => format!("; streams that are older have {time} (`shutdown.drainTimeout`)"),
        None => format!(
            "; streams that are older have {GATEWAY_DRAIN} (Envoy Gateway's default without \
             `shutdown.drainTimeout`)"
        ),
    }
}

/// The drain time of proxies without one of their own. A proxy reads it when it starts, so a
/// running proxy may have the value from before or after the change: the shorter one counts.
pub(super) fn common_time(inputs: &Inputs) -> Option<TimeSpan> {
    let nodes = inputs.keyed(DRAIN_DURATION);
    let (old, new): (Vec<_>, Vec<_>) = nodes
        .filter(|node| node.has_keys(&[DRAIN_DURATION, "defaultConfig"]))
        .partition(|node| is_old(inputs, *node));
    let shortest = |nodes: Vec<Node<'_>>| nodes.into_iter().filter_map(span).min();
    match (shortest(old), shortest(new)) {
        (Some(old), Some(new)) => Some(old.min(new)),
        (one, other) => one.or(other).filter(|time| *time <= ISTIO_DRAIN),
    }
}

fn span(node: Node<'_>) -> Option<TimeSpan> {
    node.text()?.parse().ok()
}

fn is_old(inputs: &Inputs, node: Node<'_>) -> bool {
    inputs.old_files.is_some_and(|files| inputs.file_of(node.tree) < files)
}

/// The map of labels by which an object selects pods.
fn selector(object: Object<'_>) -> Option<Node<'_>> {
    let spec = object.spec()?;
    let selector = spec.get("selector");
    let labels = object
        .selector()
        .or_else(|| selector.and_then(|selector| selector.get("matchLabels")))
        .or_else(|| selector.filter(|_| object.kind == "Gateway"));
    labels.filter(|labels| labels.is_map())
}
