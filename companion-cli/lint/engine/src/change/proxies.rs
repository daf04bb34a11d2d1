//! The proxies that get a part of a change, and the time that their streams have left.

use super::GATEWAY_DRAIN;
use crate::{Inputs, Node, Object, Pod, ProxySelector, ROOT_NAMESPACE, patch_of, pods};
use manifest_text::istio::ISTIO_DRAIN;
use manifest_text::time_span::TimeSpan;

const DRAIN_DURATION: &str = "drainDuration";
/// Kinds that apply to proxies of every namespace. `exportTo`, which can limit them, is not
/// evaluated here.
const EVERYWHERE: [&str; 6] =
    ["ConfigMap", "Gateway", "VirtualService", "DestinationRule", "Service", "ServiceEntry"];
/// The most workloads that a message names.
const MOST_NAMED: usize = 5;

/// The proxies that get an object.
#[derive(Debug)]
pub(super) struct Proxies {
    pub(super) selector: ProxySelector,
    /// Whether the object applies only to proxies of its namespace.
    pub(super) is_of_namespace: bool,
}

impl Proxies {
    pub(super) fn of(object: Object<'_>) -> Self {
        let is_of_namespace =
            object.namespace() != Some(ROOT_NAMESPACE) && !EVERYWHERE.contains(&object.kind);
        let labels = selector(object);
        let mut selector = ProxySelector::selected(object, labels);
        // A value that is no text must not hide the proxies that the object reaches without it.
        let texts = labels.into_iter().flat_map(Node::entries);
        let texts =
            texts.filter_map(|(key, value)| Some((key.to_owned(), value.text()?.to_owned())));
        selector.labels = texts.collect();
        Self { selector, is_of_namespace }
    }

    /// The proxies as text for a message.
    pub(super) fn describe(&self, node: Node<'_>, inputs: &Inputs) -> String {
        let context = match patch_of(node).map(|patch| patch.context()) {
            Some("GATEWAY") => "gateways: ",
            Some("SIDECAR_INBOUND") => "inbound, sidecars: ",
            Some("SIDECAR_OUTBOUND") => "outbound, sidecars: ",
            Some("WAYPOINT") => "waypoints: ",
            _ => "",
        };
        let ProxySelector { namespace, labels, targets, .. } = &self.selector;
        let space = match namespace {
            _ if !self.is_of_namespace => "in every namespace".into(),
            Some(namespace) => format!("in namespace `{namespace}`"),
            None => "in its namespace".into(),
        };
        if !targets.is_empty() {
            let target =
                |(kind, name): &(String, String)| format!("{} `{}`", shown(kind), shown(name));
            let targets: Vec<String> = targets.iter().map(target).collect();
            return format!("{context}{} {space}", targets.join(", "));
        }
        let labels: Vec<String> =
            labels.iter().map(|(key, value)| format!("`{key}: {value}`")).collect();
        let receivers = match labels.join(", ") {
            none if none.is_empty() => "every proxy".to_owned(),
            labels => format!("pods with {labels}"),
        };
        format!("{context}{receivers} {space}{}", self.named(inputs))
    }

    fn named(&self, inputs: &Inputs) -> String {
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
    fn pods<'g>(&self, inputs: &'g Inputs) -> impl Iterator<Item = Pod<'g>> {
        pods(inputs).filter(move |pod| !is_old(inputs, pod.spec)).filter(move |pod| {
            let namespace = pod.namespace().filter(|_| self.is_of_namespace);
            self.selector.selects(namespace, &pod.labels())
        })
    }

    /// The time that Envoy keeps the streams, as text: the shortest drain time of the selected
    /// proxies.
    pub(super) fn time_left(&self, inputs: &Inputs) -> String {
        let common = common_time(inputs);
        let drain_time = |pod: Pod<'_>| span(pod.proxy_config()?.get(DRAIN_DURATION)?);
        let mut times: Vec<_> = self.pods(inputs).map(|pod| drain_time(pod).or(common)).collect();
        if self.selector.labels.is_empty() || times.is_empty() {
            times.push(common); // proxies outside of these files get it, too
        }
        let has_default = times.contains(&None);
        let shortest = times.into_iter().flatten().min();
        let time = shortest.filter(|time| !has_default || *time <= ISTIO_DRAIN);
        time_text(time, DRAIN_DURATION, "Istio's default for proxies", ISTIO_DRAIN)
    }
}

/// The kind or name of a target, which may be missing.
fn shown(text: &str) -> &str {
    if text.is_empty() { "?" } else { text }
}

/// The time that this setting gives, or else a default, as text for a message.
fn time_text(time: Option<TimeSpan>, setting: &str, whose: &str, default: TimeSpan) -> String {
    let source = match time {
        Some(_) => format!("`{setting}`"),
        None => format!("{whose} without `{setting}`"),
    };
    format!("; streams that are older have {} ({source})", time.unwrap_or(default))
}

/// The time that the proxies of Envoy Gateway keep the streams, as text. They start with the
/// `drainTimeout` of their EnvoyProxy.
pub(super) fn time_at_envoy_gateway(inputs: &Inputs) -> String {
    let times =
        inputs.keyed("drainTimeout").filter(|node| node.has_keys(&["drainTimeout", "shutdown"]));
    let time = times.filter_map(span).min();
    time_text(time, "shutdown.drainTimeout", "Envoy Gateway's default", GATEWAY_DRAIN)
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
