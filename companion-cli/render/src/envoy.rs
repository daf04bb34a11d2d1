//! A complete bootstrap for an Envoy without a mesh, ready to run.

use std::net::SocketAddr;

use laststream_filter::config::wire::Scope;

use super::client_connection::{self, Chain};
use super::files::{File, other};
use super::kind::misplaced;
use super::parts::{self, HCM, Role, WHY_EARLY, WHY_REMOVED};
use super::placement::{self, Form};
use super::scheme::Scheme;
use super::{gate, hook, latch};
use super::{shown_request, websockets};
use laststream_base::yaml::{List, Map};
use laststream_policy::module_json;
use laststream_policy::placement::{ADMIN_CLUSTER, AppProtocol, PlainEnvoy};
use laststream_policy::{ENVOY_DRAIN, ModuleLocation, Policy, PolicyProblem, Resolve};

pub(super) fn render(policy: &Policy, resolve: Resolve<'_>) -> Result<File, PolicyProblem> {
    let envoy = placed(policy)?;
    if !policy.tcp.is_empty() {
        return Err(PolicyProblem::new("count.tcp", NO_TCP));
    }
    let source = &policy.source(resolve)?;
    needs_file("module", source)?;
    let frames = policy.frames_source(resolve)?;
    if let Some(source) = &frames {
        needs_file("websockets.module", source)?;
    }
    let [listen, app, admin] = addresses(envoy)?;
    let scheme = Scheme::of(policy, |part| format!("laststream-{part}"))?;
    let role = stream_role(policy, &scheme);
    let module = (!policy.by_envoy).then(|| parts::filter(&role, policy, source));
    let modules = [module, frames.map(|source| self::frames(policy, &source))];
    let modules = modules.into_iter().flatten().collect::<Vec<Map>>();
    let mut listeners = List::of(main(policy, &scheme, &modules, listen));
    if let Some(port) = policy.gate_port {
        let role = parts::gate_role(policy);
        let filter = parts::filter(&role, policy, source);
        listeners = listeners
            .note(format!("The gate: curl 127.0.0.1:{port}/status"))
            .item(gate::listener("gate", port, policy, filter));
    }
    let mut clusters = List::new();
    if policy.gate_port.is_some() {
        clusters = clusters
            .note("Envoy's own admin interface, which the gate asks.")
            .item(cluster(ADMIN_CLUSTER, admin));
    }
    let clusters = clusters.item(app_cluster(app, envoy.app_protocol));
    let bootstrap = Map::of("admin", Map::of("address", address(admin)))
        .note("The gate closes and opens its latch here.")
        .with_some("layered_runtime", policy.by_envoy.then(latch::runtime))
        .with("static_resources", Map::of("listeners", listeners).with("clusters", clusters));
    Ok(other("envoy.yaml", &about(policy, &scheme, listen, app), bootstrap))
}

/// The argument with which Envoy tells every client of a draining listener to leave.
pub(super) const DRAIN_STRATEGY: &str = "--drain-strategy immediate";
const WHY_IMMEDIATE: &str = "Without `--drain-strategy immediate` Envoy tells clients to leave \
    with a probability that grows over its drain time (600 s): busy keep-alive connections stay, \
    and hold the drain to its deadline.";

const FRAMES: &str = "laststream-frames";

const NO_TCP: &str = "names listeners of your own, and this bootstrap has none: merge laststream \
    into the file that has them, with `--into FILE`";

/// The Envoy that the policy is for.
pub(super) fn placed(policy: &Policy) -> Result<&PlainEnvoy, PolicyProblem> {
    match placement::facts(policy).form {
        Form::Envoy(envoy) => Ok(envoy),
        _ => misplaced("is not an Envoy without a mesh: write `placement: {envoy: {}}`"),
    }
}

/// The frame filter, off except on the routes of WebSockets.
pub(super) fn frames(policy: &Policy, source: &ModuleLocation) -> Map {
    websockets::disabled(websockets::filter(FRAMES, policy, source))
}

pub(super) fn needs_file(field: &str, source: &ModuleLocation) -> Result<(), PolicyProblem> {
    if source.path().is_some() {
        return Ok(());
    }
    let (flag, name) = if field == "module" { ("", "") } else { (" --frames", "_frames") };
    let message = format!(
        "is no file, and Envoy itself fetches no image and waits for no download: write the file \
            with `laststream module{flag} --file /etc/envoy/laststream{name}.wasm`, and name the \
            file here"
    );
    Err(PolicyProblem::new(field, message))
}

/// Envoy's own options.
pub(super) fn options(policy: &Policy) -> String {
    let drain = policy.sizing.drain_time();
    if drain > ENVOY_DRAIN {
        format!("{DRAIN_STRATEGY} --drain-time-s {}", drain.whole_seconds())
    } else {
        DRAIN_STRATEGY.to_owned()
    }
}

/// The comment at the head of the file.
fn about(policy: &Policy, scheme: &Scheme<'_>, listen: SocketAddr, app: SocketAddr) -> Vec<String> {
    let options = options(policy);
    let mut about = vec![
        format!("An Envoy on {listen}, in front of an app on {app}: envoy -c envoy.yaml {options}"),
        WHY_IMMEDIATE.into(),
    ];
    about.extend(policy.gate_port.map(|port| {
        format!(
            "The hook that stops it: laststream prestop --gate http://127.0.0.1:{port} --timeout \
                {}s",
            hook::timeout(policy)
        )
    }));
    about.extend(scheme.about());
    if !scheme.filters().is_empty() {
        about.push(
            "They are right for a listener without TLS, such as this one: `lint` says so of any \
                other. `engine: wasm` is for any."
                .into(),
        );
    }
    about
}

/// The three addresses, which were checked when the policy was read.
pub(super) fn addresses(envoy: &PlainEnvoy) -> Result<[SocketAddr; 3], PolicyProblem> {
    let read = |address: &Option<String>| address.as_deref().unwrap_or_default().parse();
    match (read(&envoy.listen), read(&envoy.app), read(&envoy.admin)) {
        (Ok(listen), Ok(app), Ok(admin)) => Ok([listen, app, admin]),
        _ => Err(PolicyProblem::new("placement.envoy", "is not an address: write `HOST:PORT`")),
    }
}

pub(super) fn stream_role(policy: &Policy, scheme: &Scheme<'_>) -> Role<'static> {
    Role {
        name: "laststream",
        configuration: module_json::stream(policy, Scope::Gateway, scheme.is_restored_by_module()),
        is_gate: false,
    }
}

/// The listener in front of the app, with these filters in their place.
pub(super) fn main(
    policy: &Policy,
    scheme: &Scheme<'_>,
    modules: &[Map],
    listen: SocketAddr,
) -> Map {
    let mut chains = Vec::new();
    let mut default_chain = Map::new();
    for Chain { matches, manager } in client_connection::chains(policy, scheme) {
        let manager = connection_manager(policy, manager, scheme, modules);
        let filters = List::of(parts::typed(HCM, manager));
        match matches {
            Some(matches) => {
                let chain = Map::of("filter_chain_match", matches);
                chains.push(chain.with("filters", filters));
            }
            None => default_chain = Map::of("filters", filters),
        }
    }
    let listener = Map::of("name", "main").with("address", address(listen));
    let proxy_protocol = client_connection::takes_proxy_protocol(policy)
        .then(|| List::of(client_connection::proxy_protocol_filter()));
    let listener = listener
        .note(client_connection::WHY_PROXY_PROTOCOL)
        .with_some("listener_filters", proxy_protocol);
    if chains.is_empty() {
        return listener.with("filter_chains", List::of(default_chain));
    }
    listener
        .with("filter_chains", chains.into_iter().collect::<List>())
        .note("All other peers.")
        .with("default_filter_chain", default_chain)
}

/// The whole connection manager: its first fields, and those that all filter chains share.
fn connection_manager(policy: &Policy, manager: Map, scheme: &Scheme<'_>, modules: &[Map]) -> Map {
    let peer_filter =
        scheme.peer_info().map(|info| parts::peer_info_filter(parts::STATE_FILTER, info));
    let filters = peer_filter
        .into_iter()
        .chain(shown_request::filter(policy))
        .chain(modules.iter().cloned())
        .chain(scheme.filters().iter().cloned())
        .chain([parts::router()]);
    let removals = scheme.saved_in().map(List::of);
    let host = Map::of("name", "app")
        .with("domains", List::of("*"))
        .note(WHY_REMOVED)
        .with_some("request_headers_to_remove", removals)
        .with("routes", routes(policy));
    manager
        .note("How long a stream may be silent; the routes have no other time-out.")
        .with_some("stream_idle_timeout", policy.file.stream_idle.map(|idle| idle.to_string()))
        .note("Envoy 1.39 and newer.")
        .with_some(parts::JITTER, parts::jitter(policy))
        .note(WHY_EARLY)
        .with_some(
            "early_header_mutation_extensions",
            scheme.early(policy).map(|early| parts::early_mutation(early, policy)),
        )
        .note(
            "WebSockets are let through; they hold a drain until they end, unless the policy has \
            them exempt.",
        )
        .with("upgrade_configs", List::of(Map::of("upgrade_type", "websocket")))
        .with("http_filters", filters.collect::<List>())
        .with("route_config", Map::of("name", "main").with("virtual_hosts", List::of(host)))
}

/// All requests go to the app; WebSockets by routes of their own, if the policy names some.
fn routes(policy: &Policy) -> List {
    let to_app = |prefix: &str| {
        Map::of("match", Map::of("prefix", prefix))
            .with("route", Map::of("cluster", "app").with("timeout", "0s"))
    };
    let sockets = policy.file.websockets.iter().flat_map(|websockets| &websockets.routes);
    let latch = policy.by_envoy.then(latch::route);
    let to_the_app = sockets
        .map(|route| {
            to_app(route.value())
                .note(websockets::WHY_ON)
                .with("typed_per_filter_config", websockets::on(FRAMES))
        })
        .chain([to_app("/")]);
    latch.into_iter().chain(to_the_app).collect()
}

pub(super) fn app_cluster(at: SocketAddr, protocol: AppProtocol) -> Map {
    let is_http2 = protocol == AppProtocol::Http2;
    let options = is_http2.then(|| parts::protocol_options("http2_protocol_options", None));
    cluster("app", at).with_some("typed_extension_protocol_options", options)
}

pub(super) fn cluster(name: &str, at: SocketAddr) -> Map {
    Map::of("name", name).with("connect_timeout", "1s").with("load_assignment", endpoints(name, at))
}

/// `load_assignment` of a cluster with one endpoint.
pub(super) fn endpoints(cluster: &str, at: SocketAddr) -> Map {
    let endpoint = Map::of("endpoint", Map::of("address", address(at)));
    let endpoints = List::of(Map::of("lb_endpoints", List::of(endpoint)));
    Map::of("cluster_name", cluster).with("endpoints", endpoints)
}

pub(super) fn address(address: SocketAddr) -> Map {
    parts::address(&address.ip().to_string(), address.port())
}
