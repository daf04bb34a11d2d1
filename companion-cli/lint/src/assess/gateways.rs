//! The rows of Gateways of the Gateway API, whose pods a controller makes.

use std::collections::HashMap;

use laststream_assess::{Hook, Manager, Proxy, ProxyGate, ProxyKind, Row, Workload};

use super::mesh::{Mesh, selecting};
use super::settings::Settings;
use super::workloads::row;
use super::{folder, hooks, nearest};
use crate::modules::gates;
use laststream_base::istio::WAYPOINTS;
use laststream_base::time_span::milliseconds;
use manifest_lint::{
    Inputs, Node, Object, Overlaid, PROXIES, Pod, Reach, beside, named, near, object_of, of_kind,
    pods,
};

const CONTROLLERS: [(&str, ProxyKind); 3] = [
    ("istio.io/gateway-controller", ProxyKind::GatewayApi),
    ("istio.io/mesh-controller", ProxyKind::Waypoint),
    ("gateway.envoyproxy.io/gatewayclass-controller", ProxyKind::EnvoyGateway),
];
/// Classes that their controllers make, or that their documentation names.
const CLASSES: [(&str, ProxyKind); 4] = [
    ("istio", ProxyKind::GatewayApi),
    (WAYPOINTS, ProxyKind::Waypoint),
    ("eg", ProxyKind::EnvoyGateway),
    ("envoy-gateway", ProxyKind::EnvoyGateway),
];
/// The spec of the pods in the patch of an EnvoyProxy.
const PATCHED: &str = "spec.provider.kubernetes.envoyDeployment|envoyDaemonSet.patch.value.spec.\
    template.spec";
/// The time that Envoy Gateway adds to the drain timeout for the grace period, in seconds.
const ENVOY_GATEWAY_GRACE: u64 = 300;

/// The rows of Gateways that no row of `others` belongs to.
pub(super) fn rows<'g, 'r>(inputs: &'g Inputs, mesh: &Mesh<'g>, others: &'r [Row]) -> Vec<Row> {
    let of_pod = |pod: Pod<'g>| {
        Some((pod.label("gateway.networking.k8s.io/gateway-name")?, pod.namespace()))
    };
    let of_row = |row: &'r Row| {
        let Workload { kind, namespace, name } = &row.workload;
        (kind == "Gateway").then_some((name.as_str(), namespace.as_deref()))
    };
    let mut with_pods: HashMap<&str, Vec<Option<&str>>> = HashMap::new();
    for (name, namespace) in pods(inputs).filter_map(of_pod).chain(others.iter().filter_map(of_row))
    {
        with_pods.entry(name).or_default().push(namespace);
    }
    let has_pods = |gateway: Object<'g>| {
        let spaces = with_pods.get(gateway.name());
        spaces.is_some_and(|all| all.iter().any(|space| near(*space, gateway.namespace())))
    };
    let gateways = of_kind(inputs, "Gateway")
        .filter(|gateway| gateway.group() == "gateway.networking.k8s.io" && !has_pods(*gateway));
    let overlays: Vec<Pod<'g>> = pods(inputs).filter(|pod| pod.is_overlay()).collect();
    let row_of = |gateway: Object<'g>| {
        let proxy = match kind_of(inputs, gateway)? {
            ProxyKind::EnvoyGateway if is_on_host(inputs, gateway) => return None,
            ProxyKind::EnvoyGateway => of_envoy_gateway(inputs, gateway),
            kind if is_managed(gateway) => of_istio(mesh, gateway, kind, &overlays),
            _ => return None,
        };
        Some(row(inputs, gateway.node, proxy, None))
    };
    gateways.filter_map(row_of).collect()
}

fn kind_of(inputs: &Inputs, gateway: Object<'_>) -> Option<ProxyKind> {
    if gateway.parameters("EnvoyProxy").is_some() {
        return Some(ProxyKind::EnvoyGateway);
    }
    let class = gateway.gateway_class();
    let controller =
        class_of(inputs, gateway).and_then(|class| class.node.text_of("spec.controllerName"));
    let of = |table: &[(&str, ProxyKind)], name: &str| {
        table.iter().find(|(own, _)| *own == name).map(|(_, kind)| *kind)
    };
    match controller {
        Some(controller) => of(&CONTROLLERS, controller),
        None => of(&CLASSES, class),
    }
}

fn class_of<'g>(inputs: &'g Inputs, gateway: Object<'g>) -> Option<Object<'g>> {
    nearest(gateway.node, named(inputs, "GatewayClass", gateway.gateway_class()))
}

/// Whether Istio makes the Deployment of the Gateway: one whose address is not a single IP address
/// uses that of another.
fn is_managed(gateway: Object<'_>) -> bool {
    let addresses: Vec<Node<'_>> = gateway.node.list("spec.addresses").collect();
    let is_ip = |address: &Node<'_>| matches!(address.text_of("type"), None | Some("IPAddress"));
    addresses.len() < 2 && addresses.iter().all(is_ip)
}

fn of_istio<'g>(
    mesh: &Mesh<'g>,
    gateway: Object<'g>,
    kind: ProxyKind,
    overlays: &[Pod<'g>],
) -> Proxy {
    let overlaid = Overlaid::of_gateway(gateway);
    let overlay = |pod: &&Pod<'g>| {
        pod.class().is_some_and(|class| class == gateway.gateway_class())
            || gateway.parameters("ConfigMap") == Some(pod.object.name())
                && pod.object.is_near(gateway)
    };
    let mut parts: Vec<Pod<'g>> = overlays.iter().filter(overlay).copied().collect();
    parts.sort_by_key(|pod| pod.class().is_some()); // its own overlay before that of its class
    let mut settings = Settings::of_pod(mesh, gateway.node, &parts, PROXIES[0]);
    let annotations = gateway.node.fields("spec.infrastructure.annotations");
    let annotations = annotations.or_else(|| gateway.node.fields("metadata.annotations"));
    let config = annotations.and_then(|map| map.get("proxy.istio.io/config")?.embedded());
    settings.configs.extend(config);
    settings.is_whole = true;
    settings.gate = settings.gate.or_else(|| {
        let mut gates = selecting(mesh.inputs).filter(|(reach, _)| match reach {
            Reach::Selector(selector) => selector.may_select_gateway(&overlaid),
            Reach::Envoy { .. } => false,
        });
        gates.next().map(|(_, gate)| gate)
    });
    settings.proxy(kind, mesh)
}

/// The EnvoyProxy of a Gateway, or that of its class.
fn envoy_proxy<'g>(inputs: &'g Inputs, gateway: Object<'g>) -> Option<Object<'g>> {
    if let Some(name) = gateway.parameters("EnvoyProxy") {
        return nearest(gateway.node, beside(gateway, "EnvoyProxy", name));
    }
    let class = class_of(inputs, gateway)?;
    let reference = class.node.fields("spec.parametersRef")?;
    nearest(class.node, named(inputs, "EnvoyProxy", reference.text_of("name")?))
}

/// Whether Envoy Gateway runs the Envoy as a process beside itself, without a pod: by its own
/// settings in the same folder or above, or by the EnvoyProxy.
fn is_on_host(inputs: &Inputs, gateway: Object<'_>) -> bool {
    let is_above = |settings: &Object<'_>| {
        let folders = folder(gateway.node).zip(folder(settings.node));
        folders.is_some_and(|(own, other)| own.starts_with(other))
    };
    let mut settings = of_kind(inputs, "EnvoyGateway").filter(is_above);
    let infrastructure = "provider.custom.infrastructure.type";
    settings.any(|settings| settings.node.text_of(infrastructure) == Some("Host"))
        || envoy_proxy(inputs, gateway)
            .is_some_and(|proxy| proxy.node.text_of("spec.provider.type") == Some("Host"))
}

fn of_envoy_gateway(inputs: &Inputs, gateway: Object<'_>) -> Proxy {
    let usual = Proxy::of(ProxyKind::EnvoyGateway);
    let is_named = gateway.parameters("EnvoyProxy").is_some();
    let Some(object) = envoy_proxy(inputs, gateway) else {
        let grace = usual.manager.timeout.map(|millis| millis / 1000 + ENVOY_GATEWAY_GRACE);
        // The EnvoyProxy that the Gateway names is not here.
        let manager =
            if is_named { Manager { timeout: None, ..usual.manager } } else { usual.manager };
        return Proxy { grace, manager, ..usual };
    };
    let pod = object.node.all(PATCHED).next();
    let hook =
        pod.and_then(|pod| pod.item("containers", "name", PROXIES[1])?.fields("lifecycle.preStop"));
    let time = |name: &str| object.node.fields("spec.shutdown")?.get(name)?.text();
    let timeout = time("drainTimeout").map_or(usual.manager.timeout, milliseconds);
    let least = time("minDrainDuration").and_then(milliseconds).unwrap_or(usual.manager.least);
    let patched = pod.and_then(|pod| pod.get("terminationGracePeriodSeconds"));
    let grace = match patched {
        Some(grace) => grace.number(),
        None => timeout.map(|millis| millis / 1000 + ENVOY_GATEWAY_GRACE),
    };
    Proxy {
        grace,
        hook: hook.map_or(Hook::None, hooks::time_of),
        manager: Manager { timeout, least, is_assumed: false },
        gate: gate_in(inputs, object, hook),
        ..usual
    }
}

/// The gate in the bootstrap of an EnvoyProxy, if the stop hook asks it.
fn gate_in(inputs: &Inputs, proxy: Object<'_>, hook: Option<Node<'_>>) -> Option<ProxyGate> {
    let by_hook = hook.and_then(hooks::gate_of)?;
    let rendered = gates(inputs).find(|(module, _)| {
        let holder = module.plugin.carrier().and_then(|text| object_of(text.outermost()));
        holder.is_some_and(|holder| holder.node == proxy.node)
    });
    let deadline = rendered.map_or(u64::MAX, |(_, gate)| gate.deadline_ms);
    Some(ProxyGate { deadline: deadline.min(by_hook.deadline), ..by_hook })
}
