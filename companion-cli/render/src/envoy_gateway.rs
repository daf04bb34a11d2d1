//! Envoy Gateway's policies: its own kinds for the module, patches for settings that it has no
//! field for.

use laststream_filter::config::wire::Scope;
use laststream_filter::forwarded::FORWARDED_PROTO;

use super::client_connection;
use super::envoy_proxy;
use super::envoy_proxy::gateway_time;
use super::files::{GATEWAY_PATCH, Rendered, objects};
use super::kind::misplaced;
use super::objects::{metadata, patch_gateway, reference};
use super::parts::{self, WHY_EARLY, WHY_REMOVED};
use super::placement::{self, Form};
use super::scheme::Scheme;
use laststream_base::time_span::TimeSpan;
use laststream_base::yaml::{List, Map, Node};
use laststream_policy::file::FailurePolicy;
use laststream_policy::module_json;
use laststream_policy::placement::EnvoyGateway;
use laststream_policy::{ModuleLocation, Policy, PolicyProblem, Resolve};

const API: &str = "gateway.envoyproxy.io/v1alpha1";
const LISTENER: &str = "type.googleapis.com/envoy.config.listener.v3.Listener";
const ROUTES: &str = "type.googleapis.com/envoy.config.route.v3.RouteConfiguration";

pub(super) fn render(policy: &Policy, resolve: Resolve<'_>) -> Result<Rendered, PolicyProblem> {
    let Form::EnvoyGateway(gateway) = placement::facts(policy).form else {
        return misplaced(
            "is not Envoy Gateway: write `placement: {envoy_gateway: {gateway: NAME}}`",
        );
    };
    let source = (!policy.is_program()).then(|| policy.source(resolve)).transpose()?;
    let proxy = envoy_proxy::spec(policy, source.as_ref());
    let mut about = vec![about_gate(policy, gateway, proxy.is_some())];
    let scheme = Scheme::of(policy, |part| format!("{}.{part}", policy.name))?;
    let mut documents = Vec::new();
    if let Some(source) = &source {
        about.push(ONE_EXTENSION.to_owned());
        about.extend(scheme.about());
        documents.push(extension(policy, source, gateway, &scheme)?);
    }
    if let Some(spec) = clients(policy, gateway) {
        about.push(
            "A Gateway has one ClientTrafficPolicy: if yours has one already, add these fields to \
                it instead."
                .into(),
        );
        documents.push(object("ClientTrafficPolicy", policy, spec));
    }
    if let Some(idle) = policy.file.stream_idle {
        about.push(ONE_BACKEND.to_owned());
        documents.push(object("BackendTrafficPolicy", policy, routes(gateway, idle)));
    }
    let patches = patches(policy, gateway, &scheme);
    let has_patches = !patches.is_empty();
    if has_patches {
        about.push(
            "EnvoyPatchPolicy must be enabled in Envoy Gateway \
            (extensionApis.enableEnvoyPatchPolicy). Without these patches no peer is trusted."
                .into(),
        );
        about.push(
            "They are for plain HTTP listeners: one with TLS has its filters in /filter_chains/0 \
                instead of /default_filter_chain."
                .into(),
        );
        documents.push(patch_policy(policy, gateway, patches));
    }
    let has_gate = proxy.is_some();
    documents.extend(proxy.map(|spec| object("EnvoyProxy", policy, spec)));
    let mut files = vec![objects("envoy-gateway.yaml", &about, &documents)];
    files.extend(has_gate.then(|| envoy_proxy::reference(gateway, policy)));
    let mut named = gateway.listeners.iter().filter(|_| has_patches);
    let tls = named.find(|name| ["https", "tls"].iter().any(|word| name.contains(word)));
    let warnings = tls.map(|name| NO_TLS.replace("NAME", name)).into_iter().collect();
    Ok(Rendered { files, warnings })
}

const NO_TLS: &str = "placement.envoy_gateway.listeners: Envoy Gateway cannot apply the patches to \
    a listener with TLS, and `NAME` sounds like one: name plain HTTP listeners only";

const ONE_EXTENSION: &str = "A Gateway has one EnvoyExtensionPolicy, its oldest: if yours has one \
    already, add the item of `wasm` to it, and write its name and the item's index into the gate's \
    vm_id.";

const ONE_BACKEND: &str = "A BackendTrafficPolicy of a route replaces the Gateway's for that \
    route, and `timeouts.request` of an HTTPRoute replaces `requestTimeout`: keep both off routes \
    with streams.";

/// `spec` of the BackendTrafficPolicy: the limits of streams.
fn routes(gateway: &EnvoyGateway, idle: TimeSpan) -> Map {
    let limits = Map::new()
        .note("No total time-out; left out, it is 15 s.")
        .with("requestTimeout", "0s")
        .note("How long a stream may be silent. Left out, no total time-out means no limit here.")
        .with("streamIdleTimeout", gateway_time(idle));
    Map::of("targetRefs", List::of(target(gateway))).with("timeout", Map::of("http", limits))
}

fn about_gate(policy: &Policy, gateway: &EnvoyGateway, has_gate: bool) -> String {
    if has_gate {
        let place = if policy.is_program() {
            "a program in the pods"
        } else {
            "in the bootstrap, which the EnvoyProxy holds"
        };
        format!(
            "The gate is {place}. It is there once the Gateway names the EnvoyProxy: {}. The pods \
                are then replaced.",
            patch_gateway(policy, &gateway.gateway, GATEWAY_PATCH)
        )
    } else {
        "There is no gate here: Envoy Gateway's shutdown manager holds drains, by connections. \
            For a gate write `delivery: program` and `program_image` into the policy."
            .to_owned()
    }
}

/// `spec` of the ClientTrafficPolicy, if the policy needs one.
fn clients(policy: &Policy, gateway: &EnvoyGateway) -> Option<Map> {
    const WHY_REMOVED_EARLY: &str = "With clientIPDetection Envoy keeps the peer's own \
        x-forwarded-proto. The patches below replace this; it is for a cluster where \
        EnvoyPatchPolicy is off.";
    let spec = Map::of("targetRefs", List::of(target(gateway)));
    if client_connection::takes_proxy_protocol(policy) {
        let protocol = Map::new()
            .note("Health checks of the load balancer send no header.")
            .with("optional", true);
        return Some(
            spec.note(client_connection::WHY_PROXY_PROTOCOL).with("proxyProtocol", protocol),
        );
    }
    policy.file.forwarded_for.as_ref()?;
    let peers = &policy.forwarded_proto.as_ref()?.peers;
    let ranges = super::native::ranges(peers)
        .into_iter()
        .map(|(address, length)| format!("{address}/{length}"))
        .collect::<List>();
    let trusted = Map::of("trustedCIDRs", ranges);
    let all: List = [FORWARDED_PROTO].into_iter().chain(parts::EDGE_HEADERS).collect();
    let removal = Map::of("remove", all);
    Some(
        spec.note("The same peers as those whose x-forwarded-proto is believed.")
            .with("clientIPDetection", Map::of("xForwardedFor", trusted))
            .note(WHY_REMOVED_EARLY)
            .with("headers", Map::of("earlyRequestHeaders", removal)),
    )
}

fn extension(
    policy: &Policy,
    source: &ModuleLocation,
    gateway: &EnvoyGateway,
    scheme: &Scheme<'_>,
) -> Result<Map, PolicyProblem> {
    let is_open = policy.failure_policy == FailurePolicy::Open;
    let counter = module_json::stream(policy, Scope::Gateway, scheme.is_restored_by_module());
    let wasm = Map::of("name", policy.name.as_str())
        .note("The controller fetches it, and hands it to the proxies.")
        .with("code", code(policy, source)?)
        .note(if is_open {
            "A module that cannot be fetched, or has failed, lets requests pass, uncounted."
        } else {
            "As the policy wants it: without the module requests are refused."
        })
        .with("failOpen", is_open)
        .with("config", Node::from(&counter));
    let spec = Map::of("targetRefs", List::of(target(gateway))).with("wasm", List::of(wasm));
    Ok(object("EnvoyExtensionPolicy", policy, spec))
}

/// `code`: the location from which Envoy Gateway fetches the module.
fn code(policy: &Policy, source: &ModuleLocation) -> Result<Map, PolicyProblem> {
    const WHY_DIGEST: &str = "The digest of the image's manifest, not of the module in it.";
    let from_image = |reference: &str, digest: &str| {
        let secret = policy.file.pull_secret.as_deref().map(|name| Map::of("name", name));
        let image = Map::of("url", reference)
            .note(WHY_DIGEST)
            .with("sha256", digest)
            .with_some("pullSecretRef", secret);
        Map::of("type", "Image").with("image", image)
    };
    let code = match source {
        ModuleLocation::Image { repository, digest, .. } => {
            from_image(&format!("{repository}@sha256:{digest}"), digest)
        }
        // The gate's file is from the same image. Envoy Gateway itself hands the counter's module
        // over.
        ModuleLocation::Mounted { reference, .. } => {
            from_image(reference, reference.rsplit(':').next().unwrap_or_default())
        }
        ModuleLocation::Download { url, checksum } => Map::of("type", "HTTP")
            .with("http", Map::of("url", url.as_str()).with("sha256", checksum.as_str())),
        ModuleLocation::File(path) => {
            return Err(PolicyProblem::new(
                "module",
                format!(
                    "`{path}` is a file, which Envoy Gateway cannot hand to its proxies: `oci://…` \
                        or `https://…`"
                ),
            ));
        }
    };
    Ok(code)
}

fn patches(
    policy: &Policy,
    gateway: &EnvoyGateway,
    scheme: &Scheme<'_>,
) -> Vec<(&'static str, Map)> {
    const NO_POLICY: &str = "ClientTrafficPolicy's earlyRequestHeaders cannot do it: it removes \
        after it sets, so what was saved would be gone. What such a policy has put here is \
        replaced.";
    let namespace = policy.namespace.as_deref().unwrap_or("default");
    let names =
        gateway.listeners.iter().map(|name| format!("{namespace}/{}/{name}", gateway.gateway));
    let mut patches: Vec<_> =
        names.flat_map(|name| patches_of_listener(&name, policy, scheme)).collect();
    if let Some(first) = patches.iter_mut().find(|(why, _)| *why == WHY_EARLY) {
        first.0 = NO_POLICY;
    }
    patches
}

fn patches_of_listener(
    name: &str,
    policy: &Policy,
    scheme: &Scheme<'_>,
) -> Vec<(&'static str, Map)> {
    const MANAGER: &str = "/default_filter_chain/filters/0/typed_config";
    let mut patches = Vec::new();
    let add = |kind: &str, path: String, value: Node| {
        let operation = Map::of("op", "add").with("path", path).with("value", value);
        Map::of("type", kind).with("name", name).with("operation", operation)
    };
    let peer_info = scheme.peer_info().map(parts::distant_peer_info_filter);
    for filter in peer_info.iter().chain(scheme.filters()) {
        patches.push((
            "In front of the module.",
            add(LISTENER, format!("{MANAGER}/http_filters/0"), filter.clone().into()),
        ));
    }
    if let Some(early) = scheme.early(policy) {
        let path = format!("{MANAGER}/early_header_mutation_extensions");
        patches.push((WHY_EARLY, add(LISTENER, path, parts::early_mutation(early, policy).into())));
    }
    if let Some(header) = scheme.saved_in() {
        let path = "/request_headers_to_remove".to_owned();
        patches.push((WHY_REMOVED, add(ROUTES, path, List::of(header).into())));
    }
    patches
}

fn patch_policy(policy: &Policy, gateway: &EnvoyGateway, patches: Vec<(&'static str, Map)>) -> Map {
    let patches =
        patches.into_iter().fold(List::new(), |list, (why, patch)| list.note(why).item(patch));
    let spec = Map::of("targetRef", target(gateway))
        .with("type", "JSONPatch")
        .with("jsonPatches", patches);
    object("EnvoyPatchPolicy", policy, spec)
}

fn target(gateway: &EnvoyGateway) -> Map {
    reference("Gateway", &gateway.gateway)
}

fn object(kind: &str, policy: &Policy, spec: Map) -> Map {
    super::objects::object(API, kind, metadata(policy, &policy.name), spec)
}
