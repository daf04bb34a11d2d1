//! Which proxy a pod has, by what its object shows. A pod without a sign has none: most pods of a
//! cluster are not in a mesh.

use laststream_assess::ProxyKind;

use super::mesh::Mesh;
use laststream_base::istio::WAYPOINTS;
use manifest_lint::places::ENVOY_GATEWAY;
use manifest_lint::{Node, PROXIES, Pod};

const GATEWAY: &str = "gateway.networking.k8s.io/gateway-name";
const CLASS: &str = "gateway.networking.k8s.io/gateway-class-name";
const INJECT: &str = "sidecar.istio.io/inject";
/// The annotation that names the templates of the injection.
const TEMPLATES: &str = "inject.istio.io/templates";
/// The annotation of a pod that was injected.
const STATUS: &str = "sidecar.istio.io/status";
const REVISION: &str = "istio.io/rev";
const NATIVE: &str = "sidecar.istio.io/nativeSidecar";
const DATA_PLANE: &str = "istio.io/dataplane-mode";
/// The annotation that Istio's CNI writes to pods whose traffic ztunnel takes.
const REDIRECTION: &str = "ambient.istio.io/redirection";
/// Annotations for proxies that are injected.
const SIGNS: [&str; 3] = ["sidecar.istio.io/", "proxy.istio.io/", "traffic.sidecar.istio.io/"];

/// The kind of the proxy, and the name of its container; none if the pod shows no proxy.
pub(super) fn kind_of<'g>(mesh: &Mesh<'g>, parts: &[Pod<'g>]) -> Option<(ProxyKind, &'g str)> {
    if parts.iter().any(|pod| pod.label(ENVOY_GATEWAY[1]).is_some()) {
        return Some((ProxyKind::EnvoyGateway, PROXIES[1]));
    }
    let of_istio = || {
        let is_injected = is_injected(mesh, parts);
        let container = proxy_container(parts);
        let is_here = container.is_some_and(|it| is_rendered(it) || is_injected != Some(false));
        let is_here = is_here && !is_without_envoy(parts);
        (is_here || is_injected == Some(true)).then(|| istio_kind(mesh, parts))
    };
    // A command in place of the agent's: SIGTERM reaches Envoy.
    let has_agent = !proxy_container(parts).is_some_and(runs_envoy);
    of_istio()
        .map(|kind| (if has_agent { kind } else { ProxyKind::PlainEnvoy }, PROXIES[0]))
        .or_else(|| plain_envoy(parts))
        .or_else(|| is_ambient(mesh, parts).then_some((ProxyKind::AmbientApp, "")))
}

fn proxy_container<'g>(parts: &[Pod<'g>]) -> Option<Node<'g>> {
    parts.iter().find_map(|pod| pod.proxies_named(&PROXIES[..1]).next())
}

/// Whether the container has the arguments that Istio's templates give it.
fn is_rendered(proxy: Node<'_>) -> bool {
    proxy.list("args").next().and_then(Node::text) == Some("proxy")
}

fn runs_envoy(proxy: Node<'_>) -> bool {
    let first = proxy.list("command").next().and_then(Node::text).unwrap_or_default();
    first.rsplit('/').next() == Some("envoy")
}

fn istio_kind(mesh: &Mesh<'_>, parts: &[Pod<'_>]) -> ProxyKind {
    let any = |check: &dyn Fn(&Pod<'_>) -> bool| parts.iter().any(check);
    let container = proxy_container(parts);
    let has_argument = |word: &str| {
        let mut arguments = container.into_iter().flat_map(|proxy| proxy.list("args"));
        arguments.any(|argument| argument.text() == Some(word))
    };
    if has_argument("waypoint") || any(&|pod| pod.label(CLASS) == Some(WAYPOINTS)) {
        return ProxyKind::Waypoint;
    }
    if any(&|pod| pod.label(GATEWAY).is_some()) {
        return ProxyKind::GatewayApi;
    }
    if has_argument("router") || any(&|pod| pod.is_gateway()) {
        return ProxyKind::ChartGateway;
    }
    let rendered = container.filter(|container| is_rendered(*container));
    let is_native = match rendered {
        Some(container) => Some(container.text_of("restartPolicy") == Some("Always")),
        None => {
            let annotation = parts.iter().find_map(|pod| pod.annotation(NATIVE)?.text());
            annotation.map(|text| text == "true").or(mesh.is_native)
        }
    };
    match is_native {
        Some(true) => ProxyKind::NativeSidecar,
        Some(false) => ProxyKind::ClassicSidecar,
        None => ProxyKind::Sidecar,
    }
}

/// Whether Istio injects a proxy; none if nothing says it.
fn is_injected(mesh: &Mesh<'_>, parts: &[Pod<'_>]) -> Option<bool> {
    let first = parts.first()?;
    let label = |name: &str| parts.iter().find_map(|pod| pod.label(name));
    let inject = label(INJECT)
        .or_else(|| parts.iter().find_map(|pod| pod.annotation(INJECT).and_then(Node::text)));
    let is_of_node = parts.iter().any(|pod| pod.spec.get("hostNetwork").is_some_and(Node::is_true));
    // What was injected already has its containers.
    let was_injected = parts.iter().any(|pod| pod.annotation(STATUS).is_some());
    let is_done = was_injected && proxy_container(parts).is_none();
    match inject {
        Some("false") => return Some(false),
        _ if is_done || is_without_envoy(parts) => return Some(false),
        _ if is_of_node => return Some(false),
        Some("true") => return Some(true),
        _ => {}
    }
    let has_sign = parts.iter().any(|pod| {
        pod.annotation(TEMPLATES).is_some()
            || annotations(*pod).any(|name| SIGNS.iter().any(|sign| name.starts_with(sign)))
    });
    let by_revision = label(REVISION).is_some();
    let by_namespace = mesh.namespace(*first).is_injected;
    (has_sign || by_revision || by_namespace).then_some(true)
}

/// Whether the pod names templates of which none is Istio's with an Envoy, such as `grpc-agent`, or
/// is ztunnel, whose container has the name of the proxy's.
fn is_without_envoy(parts: &[Pod<'_>]) -> bool {
    let mut arguments = proxy_container(parts).into_iter().flat_map(|proxy| proxy.list("args"));
    if arguments.any(|argument| argument.text() == Some("ztunnel")) {
        return true;
    }
    let mut templates = parts.iter().filter_map(|pod| pod.annotation(TEMPLATES)?.text());
    templates.any(|names| !["sidecar", "gateway"].iter().any(|name| names.contains(name)))
}

fn annotations<'g>(pod: Pod<'g>) -> impl Iterator<Item = &'g str> {
    let annotations = pod.template.fields("metadata.annotations");
    annotations.into_iter().flat_map(Node::entries).map(|(name, _)| name)
}

/// An Envoy that no mesh has put into the pod, with the name of its container.
fn plain_envoy<'g>(parts: &[Pod<'g>]) -> Option<(ProxyKind, &'g str)> {
    let mut containers = parts.iter().flat_map(|pod| pod.spec.list("containers"));
    let envoy = containers.find(|container| {
        container.text_of("image").is_some_and(is_envoy) && !is_shell(*container)
    })?;
    Some((ProxyKind::PlainEnvoy, envoy.text_of("name")?))
}

/// Images of the organisation `envoyproxy` that hold Envoy, beside `envoy` itself.
const VARIANTS: [&str; 6] = [
    "envoy-alpine",
    "envoy-contrib",
    "envoy-debug",
    "envoy-dev",
    "envoy-distroless",
    "envoy-google-vrp",
];

/// Whether an image is Envoy's: its last part is `envoy`, or a variant of its
/// organisation.
fn is_envoy(image: &str) -> bool {
    let path = image.split('@').next().unwrap_or_default();
    let (folder, last) = path.rsplit_once('/').unwrap_or(("", path));
    let name = last.split(':').next().unwrap_or_default();
    name == "envoy" || folder.ends_with("envoyproxy") && VARIANTS.contains(&name)
}

/// Whether a shell runs the program of the container: it may keep SIGTERM from Envoy.
fn is_shell(container: Node<'_>) -> bool {
    let first = container.list("command").next().and_then(Node::text).unwrap_or_default();
    ["sh", "bash"].contains(&first.rsplit('/').next().unwrap_or_default())
}

fn is_ambient(mesh: &Mesh<'_>, parts: &[Pod<'_>]) -> bool {
    let mode = parts.iter().find_map(|pod| pod.label(DATA_PLANE));
    let is_redirected =
        parts.iter().any(|pod| pod.annotation(REDIRECTION).and_then(Node::text) == Some("enabled"));
    let namespace = parts.first().map(|pod| mesh.namespace(*pod)).unwrap_or_default();
    is_redirected || mode.map_or(namespace.is_ambient, |mode| mode == "ambient")
}
