//! LS701, LS702: other settings that affect requests: Lua, retries. And the routes without a
//! time-out.

use std::collections::HashSet;

use crate::{Checks, Findings, Inputs, Node, Object, named, of_kind};

pub const CHECKS: Checks = &[("LS701", hard_coded_https), ("LS702", retries)];

fn hard_coded_https<'g>(inputs: &'g Inputs, findings: &mut Findings<'g>) {
    for (node, text) in inputs
        .scalars()
        .filter(|(_, text)| text.contains("request_handle") || text.contains("headers()"))
    {
        let writes = |line: &&str| {
            let line = line.to_ascii_lowercase();
            let proto = line.contains("x-forwarded-proto")
                && (line.contains(":replace(") || line.contains(":add("));
            proto && (line.contains("\"https\"") || line.contains("'https'"))
        };
        if let Some(line) = text.lines().find(writes) {
            let message = "x-forwarded-proto becomes https whatever the client used";
            findings.in_text(node, line, message);
        }
    }
}

/// Retry conditions under which the upstream has not begun. A per-try time-out needs no check,
/// because Envoy does not retry after it with these conditions alone.
const SAFE: [&str; 2] = ["connect-failure", "refused-stream"];
/// Methods that may be repeated.
const IDEMPOTENT: [&str; 4] = ["GET", "HEAD", "OPTIONS", "TRACE"];

fn retries<'g>(inputs: &'g Inputs, findings: &mut Findings<'g>) {
    for Route { node: route, .. } in http_routes(inputs) {
        let Some(retries) = route
            .get("retries")
            .filter(|retries| retries.get("attempts").and_then(Node::number) != Some(0))
        else {
            continue;
        };
        let mut matches = route.list("match").peekable();
        let safe_methods = matches.peek().is_some() && matches.all(only_safe_methods);
        let conditions = retries.text_of("retryOn");
        let unsafe_one = conditions
            .and_then(|text| text.split(',').map(str::trim).find(|one| !SAFE.contains(one)));
        let why = match (conditions, unsafe_one) {
            (None, _) => "Istio's default conditions take requests again that had begun: answers \
                with 503, and `cancelled`"
                .into(),
            (Some(_), Some(one)) => format!("`{one}` also means requests that have begun"),
            (Some(_), None) => continue,
        };
        if !safe_methods {
            findings.at(retries, why);
        }
    }
}

fn only_safe_methods(matching: Node<'_>) -> bool {
    let exact = matching.text_of("method.exact");
    exact.is_some_and(|method| IDEMPOTENT.contains(&method))
}

/// An HTTP route of a VirtualService.
#[derive(Clone, Copy)]
pub struct Route<'g> {
    pub node: Node<'g>,
    service: Object<'g>,
}

impl<'g> Route<'g> {
    /// Whether gateways have the route. Without `gateways` only sidecars have it.
    pub fn comes_through_gateway(self) -> bool {
        self.is_delegate() || self.gateways().next().is_some()
    }

    /// Whether the VirtualService is a delegate: it has neither hosts nor gateways and uses those
    /// of its root.
    pub fn is_delegate(self) -> bool {
        self.service.node.list("spec.hosts").next().is_none()
    }

    /// The gateways that the VirtualService names: `NAME`, or `NAMESPACE/NAME`.
    pub fn gateways(self) -> impl Iterator<Item = &'g str> {
        let names = self.service.node.list("spec.gateways").filter_map(Node::text);
        names.filter(|name| *name != "mesh")
    }

    pub fn namespace(self) -> Option<&'g str> {
        self.service.namespace()
    }
}

/// The HTTP routes of VirtualServices.
pub fn http_routes<'g>(inputs: &'g Inputs) -> impl Iterator<Item = Route<'g>> {
    of_kind(inputs, "VirtualService")
        .flat_map(|service| service.node.list("spec.http").map(move |node| Route { node, service }))
}

/// Rules without a time-out, of HTTPRoutes at Envoy Gateway.
pub fn untimed_rules(inputs: &Inputs) -> impl Iterator<Item = Node<'_>> {
    let timed = timed_targets(inputs);
    let gateways = gateways_of_envoy_gateway(inputs);
    let routes = of_kind(inputs, "HTTPRoute").filter(move |route| {
        let mut parents = route.node.list("spec.parentRefs").filter_map(|at| at.text_of("name"));
        parents.any(|gateway| {
            gateways.contains(gateway)
                && timed
                    .as_ref()
                    .is_some_and(|timed| !timed.contains(gateway) && !timed.contains(route.name()))
        })
    });
    let rules = routes.flat_map(|route| route.node.list("spec.rules"));
    rules.filter(|rule| rule.list("backendRefs").next().is_some() && !has_timeout(*rule))
}

/// Envoy Gateway takes the time-out of a single try for the route's if there are no retries.
fn has_timeout(rule: Node<'_>) -> bool {
    rule.fields("timeouts.request").is_some()
        || rule.get("retry").is_none() && rule.fields("timeouts.backendRequest").is_some()
}

/// The names of the Gateways that the files show to be of Envoy Gateway.
fn gateways_of_envoy_gateway(inputs: &Inputs) -> HashSet<&str> {
    let is_ours = |class: &str| {
        named(inputs, "GatewayClass", class).any(|object| {
            let controller = object.node.text_of("spec.controllerName").unwrap_or_default();
            controller.starts_with("gateway.envoyproxy.io/")
        })
    };
    let gateways = of_kind(inputs, "Gateway").filter(|gateway| {
        gateway.parameters("EnvoyProxy").is_some() || is_ours(gateway.gateway_class())
    });
    gateways.map(Object::name).collect()
}

/// The names of the routes and Gateways that policies of Envoy Gateway give a time-out; none if a
/// policy selects them by labels.
fn timed_targets(inputs: &Inputs) -> Option<HashSet<&str>> {
    let policies = of_kind(inputs, "BackendTrafficPolicy");
    let timed: Vec<_> = policies
        .filter(|policy| policy.node.fields("spec.timeout.http.requestTimeout").is_some())
        .collect();
    let selects = |policy: &Object<'_>| policy.node.list("spec.targetSelectors").next().is_some();
    let targets = timed.iter().flat_map(|policy| policy.policy_targets());
    let names = targets.filter_map(|target| target.text_of("name")).collect();
    (!timed.iter().any(selects)).then_some(names)
}
