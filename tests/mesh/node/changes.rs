//! E3: changes of Istio's objects, three of which replace listeners, and the streams of a gateway
//! that they cut.

use super::load::HOST;
use super::rolling::know_the_way;
use super::workload::{self, Proxy, Workload, routes};
use super::world::World;
use crate::cut_streams::{Change, DRAIN, Gateway};
use kit::prelude::*;

const NAMESPACE: &str = "changes";
const GATEWAY: &str = "gateway";
/// A host that the Gateway has only after its change.
const OTHER: &str = "other.test";

pub(crate) async fn case() -> Outcome {
    let world = World::get().await?;
    let _turn = world.turns.read().await;
    world.cluster.injected_namespace(NAMESPACE).await?;
    let changes = changes()?;
    // The gateway starts with the old objects, so none of them replaces a listener.
    let old: Vec<Value> = changes.iter().map(|change| change.old.clone()).collect();
    world.cluster.apply_all(&old).await?;
    let config = format!("drainDuration: {}s", DRAIN.as_secs());
    let workload = Workload {
        namespace: NAMESPACE,
        name: GATEWAY,
        proxy: Proxy::Gateway,
        annotations: json!({ "proxy.istio.io/config": config }),
        drain: Some(json!({})),
        ..Workload::default()
    };
    workload.create(world).await?;
    know_the_way(&workload, world).await?;
    let gateway = Gateway {
        case: "E3",
        cluster: &world.cluster,
        user: &world.user,
        namespace: NAMESPACE,
        address: SocketAddr::new(workload.pod(world).await?.address, workload::GATEWAY),
        takes: |time| format!("/takes/{}", time.as_millis()),
    };
    for change in &changes {
        gateway.compare(change).await?;
    }
    world.kubectl(&["delete", "namespace", NAMESPACE, "--wait=false"]).await.map(drop)
}

fn changes() -> Outcome<Vec<Change>> {
    let objects = routes(NAMESPACE, GATEWAY, &[(HOST, "backend.default")]);
    let [listener, service] = objects.as_slice() else { bail!("{objects:?}") };
    let hosts = |hosts: &[&str]| {
        let mut listener = listener.clone();
        listener["spec"]["servers"][0]["hosts"] = json!(hosts);
        listener
    };
    let route = |more: Vec<Value>| {
        let mut service = service.clone();
        service["spec"]["hosts"] = json!([HOST, OTHER]);
        let own = service["spec"]["http"][0].take();
        service["spec"]["http"] = [more, vec![own]].concat().into();
        service
    };
    let direct = json!({
        "match": [{ "uri": { "prefix": "/direct" } }], "directResponse": { "status": 418 },
    });
    let of = |what, old, new, replaces, sign| Change { what, old, new, replaces, sign };
    let denied = Some((Request::get("/two"), 403));
    let lua = Some((Request::get("/lua"), 418));
    let direct_response = Some((Request::get("/direct"), 418));
    let host = Some((Request::get("/").host(OTHER), 200));
    let (old, new) = (route(vec![]), route(vec![direct]));
    Ok(vec![
        of("an AuthorizationPolicy", policy("/one"), policy("/two"), true, denied),
        of("access logs of a Telemetry", logs(471), logs(472), true, None),
        of("an HTTP filter of an EnvoyFilter", filter("/none"), filter("/lua"), true, lua),
        of("a route of a VirtualService", old, new, false, direct_response),
        of("hosts of a Gateway without TLS", hosts(&[HOST]), hosts(&[HOST, OTHER]), false, host),
    ])
}

/// An object of Istio's API for the gateway's pods.
fn object(api: &str, kind: &str, mut spec: Value) -> Value {
    let labels = json!({ "app": GATEWAY });
    if kind == "EnvoyFilter" {
        spec["workloadSelector"] = json!({ "labels": labels });
    } else {
        spec["selector"] = json!({ "matchLabels": labels });
    }
    let metadata = json!({ "name": "changed", "namespace": NAMESPACE });
    json!({ "apiVersion": api, "kind": kind, "metadata": metadata, "spec": spec })
}

fn policy(path: &str) -> Value {
    let rule = json!({ "to": [{ "operation": { "notPaths": [path] } }] });
    let spec = json!({ "action": "ALLOW", "rules": [rule] });
    object("security.istio.io/v1", "AuthorizationPolicy", spec)
}

fn logs(least: u16) -> Value {
    let filter = json!({ "expression": format!("response.code >= {least}") });
    let logging = json!([{ "providers": [{ "name": "envoy" }], "filter": filter }]);
    object("telemetry.istio.io/v1", "Telemetry", json!({ "accessLogging": logging }))
}

/// A filter of inline code that answers this path itself.
fn filter(path: &str) -> Value {
    let code = format!(
        "function envoy_on_request(handle)\n\
           if handle:headers():get(':path') == '{path}' then\n\
             handle:respond({{[':status'] = '418'}}, '')\n\
           end\n\
         end"
    );
    let lua = json!({
        "@type": "type.googleapis.com/envoy.extensions.filters.http.lua.v3.Lua",
        "default_source_code": { "inline_string": code },
    });
    let manager = json!({ "name": "envoy.filters.network.http_connection_manager" });
    let patch = json!({
        "applyTo": "HTTP_FILTER",
        "match": { "context": "GATEWAY", "listener": { "filterChain": { "filter": manager } } },
        "patch": { "operation": "INSERT_FIRST", "value": { "name": "e3", "typed_config": lua } },
    });
    let spec = json!({ "configPatches": [patch] });
    object("networking.istio.io/v1alpha3", "EnvoyFilter", spec)
}
