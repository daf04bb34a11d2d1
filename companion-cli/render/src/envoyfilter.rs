//! One EnvoyFilter with all parts: the counters, the gate, and the parts that restore the scheme.

mod agent;
mod newer;
mod patch;
pub(super) mod statistics;

use laststream_filter::config::wire::Scope;

use super::client_connection;
use super::files::{Rendered, objects};
use super::parts::{self, HCM, HCM_TYPE, Role, WHY_EARLY, WHY_REMOVED};
use super::placement;
use super::scheme::{self, Scheme};
use super::{gate, latch, tcp};
use super::{shown_request, websockets};
use laststream_base::yaml::{List, Map};
use laststream_policy::file::{Delivery, Engine, Starts};
use laststream_policy::module_json::{self, scopes};
use laststream_policy::{ModuleLocation, Policy, PolicyProblem, Resolve, TcpListener};
pub use patch::IMAGE_ANNOTATION;
use patch::{
    PEER, Patch, context_at, context_of, first, in_managers, is_inline, name_of, object, patch,
    takes_envoyfilters,
};

pub(super) fn render(policy: &Policy, resolve: Resolve<'_>) -> Result<Rendered, PolicyProblem> {
    takes_envoyfilters(policy)?;
    let source = &policy.source(resolve)?;
    let scheme = Scheme::of(policy, |part| name_of(policy, part))?;
    let frames = frames(policy, resolve)?;
    let parts = [
        ("configurations of the module", configurations(policy, source, &scheme)),
        ("the frame filter", frames),
        ("filters of requests", filters(policy, source, &scheme)),
        ("the agent's port", agent::cluster(policy).into_iter().collect()),
        ("the gate", gate(policy, source)),
        ("the latch", latch(policy)),
        ("TCP connections", tcp_connections(policy)),
        ("what is around requests", around_requests(policy, &scheme)),
    ];
    let contents = contents(&parts);
    let mut about = about(is_inline(source), policy.starts, &scheme);
    if placement::facts(policy).overlay.is_some() {
        about.push(MADE_BY_ISTIO.into());
    }
    about.extend(scheme.about());
    about.extend(lacks_secret(policy).then(|| NO_SECRET.to_owned()));
    about.push(contents);
    let patches = parts.into_iter().flat_map(|(_, patches)| patches);
    let object = object(policy, &policy.name, Some(source), patches);
    let is_native = policy.engine == Engine::Native && policy.forwarded_proto.is_some();
    let warnings = [lacks_secret(policy).then_some(NO_SECRET), is_native.then_some(scheme::NEEDS)];
    let warnings = warnings.into_iter().flatten().map(str::to_owned).collect();
    Ok(Rendered { files: vec![objects("envoyfilter.yaml", &about, &[object])], warnings })
}

/// How many patches there are, and for what, in their order.
fn contents(parts: &[(&str, Vec<Patch>)]) -> String {
    let count: usize = parts.iter().map(|(_, patches)| patches.len()).sum();
    let used = parts.iter().filter(|(_, patches)| !patches.is_empty());
    let groups: Vec<String> =
        used.map(|(what, patches)| format!("{what} ({})", patches.len())).collect();
    format!("{count} patches: {}.", groups.join(", "))
}

/// The comment at the head of the file, as far as it is the same for all placements.
fn about(is_inline: bool, starts: Starts, scheme: &Scheme<'_>) -> Vec<String> {
    const FETCHED: [&str; 2] = [
        "Apply it before the proxies start, or restart them after it: on a busy proxy Istio \
            replaces the listeners, and requests that began before are not counted.",
        "Later changes of the module or of its configuration replace no listener.",
    ];
    const MOUNTED: [&str; 2] = [
        "Apply it together with the volume of the pods. A proxy without the file refuses these \
            listeners: one that runs keeps its former ones, one that starts never becomes ready.",
        "The module stands in the listeners, so no registry and no extension discovery can be in \
            its way. A change of its configuration replaces the listeners: streams that are older \
            than the drain time are cut. Another module is another volume, and replaces the pods.",
    ];
    const HOOK: &str = "Delete it only together with the hook that asks the gate.";
    const AGENT: &str = "Delete it only together with terminationDrainDuration of the pods: \
        without the gate each stop takes all of that time.";
    let (fetched, mounted) = (FETCHED.map(String::from), MOUNTED.map(String::from));
    let mut about: Vec<String> = if is_inline { mounted.into() } else { fetched.into() };
    about.push(if starts == Starts::Agent { AGENT } else { HOOK }.to_owned());
    let has_filters = !scheme.filters().is_empty() || scheme.newer().is_some();
    if has_filters && !is_inline {
        about.push(
            "Changes of `forwarded_proto` do replace listeners: Envoy's own filters stand in them."
                .into(),
        );
    }
    about
}

/// Whether the policy has a pull secret that the proxy itself would have to use.
fn lacks_secret(policy: &Policy) -> bool {
    policy.file.pull_secret.is_some() && policy.delivery == Delivery::Proxy
}

/// A secret's content in the resource would be readable for all users of the resource.
const NO_SECRET: &str = "An EnvoyFilter knows no pull secret: the proxies pull with the \
    docker configuration of their own container (DOCKER_CONFIG). `render wasmplugin` has pull \
    secrets, and no gate.";

const MADE_BY_ISTIO: &str = "Istio makes this Gateway's Deployment. Its pods have their settings \
    by gateway.patch.yaml, those of a class by overlay.yaml.";

fn configurations(policy: &Policy, source: &ModuleLocation, scheme: &Scheme<'_>) -> Vec<Patch> {
    const COUNTER: &str = "The module for the requests. As an extension configuration: only there \
        does Istio's agent fetch oci://.";
    const GATE: &str = "The module for the gate.";
    if is_inline(source) {
        return Vec::new();
    }
    let mut patches: Vec<Patch> = Vec::new();
    for (scope, with_proto) in scopes(policy) {
        if !has_module(policy, scheme, with_proto) {
            continue;
        }
        let counter = counter(policy, source, scheme, scope, with_proto);
        patches.push((COUNTER, patch("EXTENSION_CONFIG", None, "ADD", counter)));
        if with_proto && scheme.newer().is_some() && !policy.by_envoy {
            patches.push(newer::extension(policy, source, scope));
        }
    }
    if policy.gate_port.is_some() {
        let gate = gate_filter(policy, source);
        patches.push((GATE, patch("EXTENSION_CONFIG", None, "ADD", gate)));
    }
    patches
}

fn counter(
    policy: &Policy,
    source: &ModuleLocation,
    scheme: &Scheme<'_>,
    scope: Scope,
    with_proto: bool,
) -> Map {
    let restores = with_proto && scheme.is_restored_by_module();
    let name = name_of(policy, scope.into());
    let configuration = module_json::stream(policy, scope, restores);
    parts::filter(&Role { name: &name, configuration, is_gate: false }, policy, source)
}

/// Whether the module is in the path of requests: where Envoy alone counts, only to restore the
/// scheme on older proxies.
fn has_module(policy: &Policy, scheme: &Scheme<'_>, with_proto: bool) -> bool {
    !policy.by_envoy || with_proto && scheme.is_restored_by_module()
}

fn gate_filter(policy: &Policy, source: &ModuleLocation) -> Map {
    let name = name_of(policy, "gate");
    let configuration = module_json::gate(policy);
    parts::filter(&Role { name: &name, configuration, is_gate: true }, policy, source)
}

/// Each patch inserts its filter first, so later patches end up in front: the peer information
/// comes after the module here, and before it in the chain; Envoy's own filters the other way.
fn filters(policy: &Policy, source: &ModuleLocation, scheme: &Scheme<'_>) -> Vec<Patch> {
    const COUNTER: &str = "First in the chain, so that whatever other filters do is counted. It \
        names none of them: one that is not there would silently leave it out.";
    const RESTORED: &str = "Behind the module, which counts what came: each of these patches puts \
        its filter before those of the patches above.";
    const IN_FRONT: &str = "In front of the module, because its patch comes later.";
    let mut patches: Vec<Patch> = Vec::new();
    for (scope, with_proto) in scopes(policy) {
        let first = |filter: Map| first(context_of(scope), filter);
        let restoring = scheme.filters().iter().rev().filter(|_| with_proto);
        patches.extend(restoring.map(|filter| (RESTORED, first(filter.clone()))));
        let filter = if is_inline(source) {
            counter(policy, source, scheme, scope, with_proto)
        } else {
            parts::discovered(&name_of(policy, scope.into()))
        };
        if has_module(policy, scheme, with_proto) {
            patches.push((COUNTER, first(filter)));
        }
        let peer_info = scheme.peer_info().filter(|_| with_proto);
        let peer_info = peer_info.map(|info| parts::peer_info_filter(&name_of(policy, PEER), info));
        let in_front = peer_info.into_iter().chain(shown_request::filter(policy));
        patches.extend(in_front.map(|filter| (IN_FRONT, first(filter))));
        let native = scheme.newer().filter(|_| with_proto);
        patches.extend(
            native.into_iter().flat_map(|native| newer::filters(policy, source, native, scope)),
        );
    }
    patches
}

/// The frame filter, which is off, and the routes where it is on. These patches come before the
/// counter's, so that the counter is before the frame filter in the chain.
fn frames(policy: &Policy, resolve: Resolve<'_>) -> Result<Vec<Patch>, PolicyProblem> {
    const CODE: &str = "The module of the frame filter, which ends WebSockets with a close frame.";
    const FILTER: &str = "The frame filter, off: requests on other routes do not pass it.";
    let (Some(websockets), Some(source)) =
        (&policy.file.websockets, policy.frames_source(resolve)?)
    else {
        return Ok(Vec::new());
    };
    let name = name_of(policy, "frames");
    let mut patches: Vec<Patch> = Vec::new();
    let filter = websockets::filter(&name, policy, &source);
    let filter = if is_inline(&source) {
        filter
    } else {
        patches.push((CODE, patch("EXTENSION_CONFIG", None, "ADD", filter)));
        parts::discovered(&name)
    };
    let scopes = scopes(policy);
    let inbound = scopes.iter().find(|(scope, _)| *scope == Scope::Inbound);
    let context = inbound.or(scopes.first()).map_or("GATEWAY", |(scope, _)| context_of(*scope));
    patches.push((FILTER, first(context, websockets::disabled(filter))));
    for route in &websockets.routes {
        let matching = Map::of("name", route.value());
        let matching = Map::of("vhost", Map::of("route", matching));
        let matching = Map::of("context", context).with("routeConfiguration", matching);
        let value = Map::of("typed_per_filter_config", websockets::on(&name));
        patches.push((websockets::WHY_ON, patch("HTTP_ROUTE", Some(matching), "MERGE", value)));
    }
    Ok(patches)
}

fn gate(policy: &Policy, source: &ModuleLocation) -> Vec<Patch> {
    const GATE: &str =
        "The gate. The listener needs its name: Istio drops one without, and says nothing.";
    let Some(port) = policy.gate_port else { return Vec::new() };
    let context = context_at(policy, Scope::Outbound);
    let name = name_of(policy, "gate");
    let filter =
        if is_inline(source) { gate_filter(policy, source) } else { parts::discovered(&name) };
    let listener = gate::listener(&name, port, policy, filter);
    vec![(GATE, patch("LISTENER", Some(Map::of("context", context)), "ADD", listener))]
}

/// The route that refuses new requests, in all virtual hosts.
fn latch(policy: &Policy) -> Vec<Patch> {
    const LATCH: &str = "No filter counts requests, so a route refuses new ones when Envoy ends.";
    let patch = |(scope, _)| {
        let matching = Map::of("context", context_of(scope));
        (LATCH, patch("HTTP_ROUTE", Some(matching), "INSERT_FIRST", latch::route()))
    };
    scopes(policy).into_iter().filter(|_| policy.by_envoy).map(patch).collect()
}

/// The filter that counts TCP connections, in front of the TCP proxy of each listener.
fn tcp_connections(policy: &Policy) -> Vec<Patch> {
    const TCP: &str = "Counts TCP connections, which hold a drain. It limits nothing.";
    let port = |listener: &TcpListener| match listener {
        TcpListener::Port(port) => Some(*port),
        TcpListener::Name(_) => None,
    };
    let patch = |port| {
        let proxy = Map::of("filter", Map::of("name", tcp::PROXY));
        let listener = Map::of("portNumber", port).with("filterChain", proxy);
        let matching = Map::of("context", context_of(Scope::Gateway)).with("listener", listener);
        (TCP, patch("NETWORK_FILTER", Some(matching), "INSERT_BEFORE", tcp::counted()))
    };
    policy.tcp.iter().filter_map(port).map(patch).collect()
}

const EARLY: &str = "early_header_mutation_extensions";

/// Patches beside the HTTP filters: the PROXY protocol, the early header mutation, and the removal
/// of the saved header.
fn around_requests(policy: &Policy, scheme: &Scheme<'_>) -> Vec<Patch> {
    let context = context_at(policy, Scope::Inbound);
    let proxy_protocol = client_connection::takes_proxy_protocol(policy).then(|| {
        let matching = Map::of("context", context);
        let filter = client_connection::proxy_protocol_filter();
        (
            client_connection::WHY_PROXY_PROTOCOL,
            patch("LISTENER_FILTER", Some(matching), "INSERT_FIRST", filter),
        )
    });
    let merge = |why, matching, fields: Map| {
        let manager = parts::typed(HCM, fields);
        (why, patch("NETWORK_FILTER", Some(matching), "MERGE", manager))
    };
    let early = |why, matching, mutations: List| {
        merge(why, matching, Map::of("@type", HCM_TYPE).with(EARLY, mutations))
    };
    let manager = scheme.early(policy);
    let manager = manager.map(|mutation| {
        early(WHY_EARLY, in_managers(context), parts::early_mutation(mutation, policy))
    });
    let newer = scheme
        .needs_connection(policy)
        .then(|| early(newer::WHY_CONNECTION, newer::only(in_managers(context)), newer::removal()));
    let jitter = parts::jitter(policy).map(|percent| {
        let fields = Map::of("@type", HCM_TYPE).with(parts::JITTER, percent);
        merge(newer::WHY_JITTER, newer::only(in_managers(context)), fields)
    });
    let routes = scheme.saved_in().map(|header| {
        let routes = Map::of("request_headers_to_remove", List::of(header));
        (
            WHY_REMOVED,
            patch("ROUTE_CONFIGURATION", Some(Map::of("context", context)), "MERGE", routes),
        )
    });
    proxy_protocol.into_iter().chain(manager).chain(newer).chain(jitter).chain(routes).collect()
}

/// The EnvoyFilter beside WasmPlugins, which cannot carry the peer information and the header
/// mutations that restore the scheme.
pub(super) fn around_the_module(policy: &Policy, scheme: &Scheme<'_>) -> Option<Map> {
    const IN_FRONT: &str = "In front of the module, whose place Istio has chosen.";
    let peer = scheme.peer_info().map(parts::distant_peer_info_filter);
    let peer = peer.map(|filter| (IN_FRONT, first(context_at(policy, Scope::Inbound), filter)));
    let patches: Vec<Patch> = peer.into_iter().chain(around_requests(policy, scheme)).collect();
    (!patches.is_empty()).then(|| object(policy, &policy.name, None, patches))
}
