//! Envoy's configurations: the plain ones are written by hand; laststream's are those of
//! `laststream render envoy` with other addresses.

use std::path::Path;

use serde_json::{Value, json};

use laststream_base::causes::Context as _;
use laststream_policy::module_json::AGENT_CLUSTER;
use laststream_policy::{Overrides, Policy};
use laststream_render::Kind;

const HCM: &str = concat!(
    "type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3.",
    "HttpConnectionManager"
);
/// The error for a bootstrap that is not as the demo needs it.
const UNUSABLE: &str = "the bootstrap that `render envoy` gives cannot be used";
const ROUTER: &str = "type.googleapis.com/envoy.extensions.filters.http.router.v3.Router";

/// A bootstrap whose admin interface is a socket in the file system.
pub(super) fn plain(admin: &Path, listeners: Vec<Value>, clusters: Vec<Value>) -> Value {
    json!({
        "admin": { "address": pipe(admin) },
        "static_resources": { "listeners": listeners, "clusters": clusters },
    })
}

/// A listener on a port that the system chooses; `route` has more fields of its route.
pub(super) fn listener(name: &str, cluster: &str, mut route: Value, filters: &[Value]) -> Value {
    route["cluster"] = cluster.into();
    route["timeout"] = "0s".into();
    let router =
        json!({ "name": "envoy.filters.http.router", "typed_config": { "@type": ROUTER } });
    let route = json!({ "match": { "prefix": "/" }, "route": route });
    let host = json!({ "name": "all", "domains": ["*"], "routes": [route] });
    let manager = json!({
        "@type": HCM,
        "stat_prefix": name,
        "use_remote_address": true,
        "upgrade_configs": [{ "upgrade_type": "websocket" }],
        "http_filters": filters.iter().cloned().chain([router]).collect::<Vec<_>>(),
        "route_config": { "name": name, "virtual_hosts": [host] },
    });
    json!({
        "name": name,
        "address": socket(0),
        "filter_chains": [{ "filters": [{
            "name": "envoy.filters.network.http_connection_manager",
            "typed_config": manager,
        }] }],
    })
}

pub(super) fn cluster(name: &str, ports: &[u16]) -> Value {
    let endpoints: Vec<Value> =
        ports.iter().map(|port| json!({ "endpoint": { "address": socket(*port) } })).collect();
    json!({
        "name": name,
        "connect_timeout": "5s",
        "load_assignment": { "cluster_name": name, "endpoints": [{ "lb_endpoints": endpoints }] },
    })
}

/// Renders a policy and adapts the bootstrap to this demo: ports that the system chooses, and the
/// admin interface as a socket in the file system.
pub(super) fn rendered(policy: &Value, module: &Path, admin: &Path) -> Result<Value, String> {
    let overrides =
        Overrides { module: Some(module.display().to_string()), ..Overrides::default() };
    let policy = Policy::read(policy.to_string().as_bytes(), &overrides).context(UNUSABLE)?;
    let no_registry = |_: &str, _| Err("no registry is needed".to_owned());
    let rendered =
        laststream_render::render(Kind::Envoy, &policy, &no_registry).context(UNUSABLE)?;
    let text = rendered.files.first().map(|file| file.text.as_str()).unwrap_or_default();
    let mut bootstrap: Value = serde_saphyr::from_str(text).context(UNUSABLE)?;
    bootstrap["admin"]["address"] = pipe(admin);
    for listener in items(&mut bootstrap, "/static_resources/listeners") {
        listener["address"] = socket(0);
    }
    for cluster in items(&mut bootstrap, "/static_resources/clusters")
        .filter(|cluster| cluster["name"] == "admin")
    {
        cluster["load_assignment"]["endpoints"][0]["lb_endpoints"][0]["endpoint"]["address"] =
            pipe(admin);
    }
    Ok(bootstrap)
}

/// Adds an item to a list in a bootstrap, such as its clusters.
pub(super) fn add(bootstrap: &mut Value, list: &str, item: Value) {
    if let Some(items) = bootstrap.pointer_mut(list).and_then(Value::as_array_mut) {
        items.push(item);
    }
}

/// Lets the agent's stop start the drain, as in Istio's gateways. `render envoy` cannot do that,
/// because there is no agent without Istio.
pub(super) fn start_with_agent(bootstrap: &mut Value, port: u16) -> Result<(), String> {
    add(bootstrap, "/static_resources/clusters", cluster(AGENT_CLUSTER, &[port]));
    let gate =
        items(bootstrap, "/static_resources/listeners").find(|listener| listener["name"] == "gate");
    let configuration = gate.and_then(|gate| {
        let mut filters = items(gate, "/filter_chains/0/filters/0/typed_config/http_filters");
        filters.find_map(|filter| filter.pointer_mut("/typed_config/config/configuration/value"))
    });
    let unusable = || format!("{UNUSABLE}: its gate has no configuration");
    let configuration = configuration.ok_or_else(unusable)?;
    let mut json: Value =
        serde_json::from_str(configuration.as_str().unwrap_or_default()).map_err(|_| unusable())?;
    let gate = &mut json["gate"];
    gate["starts"] = "agent".into();
    gate["begin"] = json!({ "call": "nothing" });
    gate["finish"] = "quit".into();
    gate["admin"]["agent_cluster"] = AGENT_CLUSTER.into();
    *configuration = json.to_string().into();
    Ok(())
}

fn items<'a>(bootstrap: &'a mut Value, list: &str) -> impl Iterator<Item = &'a mut Value> {
    bootstrap.pointer_mut(list).and_then(Value::as_array_mut).into_iter().flatten()
}

fn socket(port: u16) -> Value {
    json!({ "socket_address": { "address": "127.0.0.1", "port_value": port } })
}

fn pipe(path: &Path) -> Value {
    json!({ "pipe": { "path": path.display().to_string() } })
}
