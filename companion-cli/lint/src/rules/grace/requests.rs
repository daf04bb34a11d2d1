//! LS557: time-outs of routes compared with the grace periods of the pods that serve them.

use std::collections::HashMap;

use manifest_lint::rules::traffic::{Route, http_routes};
use manifest_lint::{Findings, Inputs, Node, Pod, SplitPods, named, near, pods};

pub(super) fn request_beyond_grace<'g>(inputs: &'g Inputs, findings: &mut Findings<'g>) {
    let graces = Graces::of(inputs);
    for route in http_routes(inputs) {
        let Some(node) = route.node.get("timeout") else { continue };
        let Some(longest) = node.millis() else { continue };
        let short = graces.on_the_way(route).into_iter();
        let short = short.filter(|(grace, _)| grace.saturating_mul(1000) < longest);
        if let Some((grace, name)) = short.min() {
            let longest = longest / 1000;
            let message =
                format!("`{name}` has {grace} s of grace, and the request may take {longest} s");
            findings.at(node, message);
        }
    }
}

/// A grace period in seconds, and the name of the pods that have it.
type Grace<'g> = (u64, &'g str);

/// The grace periods of all pods.
struct Graces<'g> {
    /// Namespaces and seconds by name, without gateways.
    named: HashMap<&'g str, Vec<(Option<&'g str>, u64)>>,
    gateways: Vec<(Grace<'g>, Pod<'g>)>,
    /// The gateway with the longest grace period.
    longest: Option<Grace<'g>>,
    inputs: &'g Inputs,
}

impl<'g> Graces<'g> {
    fn of(inputs: &'g Inputs) -> Self {
        let parts = SplitPods::of(inputs);
        let mut by_name: HashMap<&'g str, Vec<(Option<&'g str>, u64)>> = HashMap::new();
        let mut gateways = Vec::new();
        for pod in pods(inputs).filter(|pod| !pod.is_job()) {
            let (name, grace) = (pod.object.name(), parts.grace_seconds(pod));
            if pod.is_gateway() {
                gateways.push(((grace, name), pod));
            } else {
                by_name.entry(name).or_default().push((pod.namespace(), grace));
            }
        }
        let longest = gateways.iter().map(|(grace, _)| *grace).max();
        Self { named: by_name, gateways, longest, inputs }
    }

    /// The grace periods of the pods that serve a route, and of its gateways. A delegate's gateways
    /// are those of its root, which is unknown here: the longest counts.
    fn on_the_way(&self, route: Route<'g>) -> Vec<Grace<'g>> {
        let hosts = route.node.list("route").filter_map(|to| to.text_of("destination.host"));
        let served = hosts.filter_map(|host| self.of_host(host, route.namespace()));
        let through = route.gateways().filter_map(|name| self.of_gateway(name, route.namespace()));
        let of_root = self.longest.filter(|_| route.is_delegate());
        served.chain(through).chain(of_root).collect()
    }

    /// The shortest grace period of the pods with a host's name. A host in the cluster is `NAME`,
    /// `NAME.NAMESPACE`, or `NAME.NAMESPACE.svc` and more.
    fn of_host(&self, host: &'g str, own: Option<&'g str>) -> Option<Grace<'g>> {
        let mut words = host.split('.');
        let name = words.next()?;
        let namespace = match (words.next(), words.next()) {
            (None, _) => own,
            (namespace, None | Some("svc")) => namespace,
            _ => return None,
        };
        let graces = self.named.get(name)?.iter();
        let near = graces.filter(|(there, _)| near(*there, namespace));
        Some((near.map(|(_, grace)| *grace).min()?, name))
    }

    /// The shortest grace period of the pods that a `Gateway` selects. If the `Gateway` is not in
    /// the files, it may select any gateway: the longest counts.
    fn of_gateway(&self, name: &str, own: Option<&str>) -> Option<Grace<'g>> {
        let (namespace, name) =
            name.split_once('/').map_or((own, name), |(namespace, name)| (Some(namespace), name));
        let resources = named(self.inputs, "Gateway", name);
        let near = resources.filter(|resource| near(resource.namespace(), namespace));
        let selectors = near.filter_map(|resource| resource.spec()?.get("selector"));
        let selectors: Vec<Node<'g>> =
            selectors.filter(|selector| selector.entries().next().is_some()).collect();
        if selectors.is_empty() {
            return self.longest;
        }
        let selected = self.gateways.iter().filter(|(_, pod)| {
            let labels = pod.labels();
            selectors.iter().any(|selector| {
                let mut pairs = selector.entries().map(|(key, value)| (key, value.text()));
                pairs.all(|(key, text)| text.is_some_and(|text| labels.contains(&(key, text))))
            })
        });
        selected.map(|(grace, _)| *grace).min()
    }
}
