//! W2: requests through HBONE tunnels. istiod's own listeners run as static ones, without the parts
//! that only Istio's build of Envoy has: peer metadata, and the mutual TLS of port 15008. The
//! plugin and the clusters come from istiod.

use super::{
    ANNOTATION, CLASS, PROGRAM, VIP, agent, deploy, deploy_program, find, listeners, stage, text,
};
use crate::agent::Agent;
use crate::control_plane::stage::{Stage, named};
use crate::isolation::folder;
use crate::parts::part;
use crate::program::Program;
use crate::seen::row;
use kit::bootstrap::{extension, socket_address};
use kit::envoy::{Envoy, Options};
use kit::prelude::*;
use kit::process::guarded;
use kit::user;

/// How long a held drain is watched.
const HELD: Duration = Duration::from_secs(4);

pub(crate) async fn through_tunnels() -> Outcome {
    let class = CLASS.read().await;
    let stage = stage("w2").await?;
    let template = deploy(&stage, "longest_request: 600s, finish: nothing").await?;
    let first = agent(&stage, &template, &[]).await?;
    let known = listeners(&stage).await?;
    drop(class);
    first.stop().await?;
    let known: Vec<Value> = ["connect_terminate", "main_internal"]
        .into_iter()
        .map(|name| find(&known, name).cloned().map(without_istios_own))
        .collect::<Outcome<_>>()?;
    let waypoint = agent(&stage, &template, &known).await?;
    stage.status_with("state", "serving").await?;
    let client = Tunnels::start().await?;
    wait_for(PATIENCE, "the waypoint", async || {
        client.http().await?.get("/").await?.expect(200).map(drop)
    })
    .await?;
    held(&stage, &waypoint, &client).await?;
    response_in_a_tunnel(&stage, &waypoint, &client).await?;
    raw(&stage, &client).await?;
    // The plugin that istiod sends.
    let plugin = waypoint.dump("ecds_filters").await?.to_string();
    ensure!(plugin.contains("laststream.wasm") && !plugin.contains("vm_id"), "{plugin}");
    row("W2", "the WasmPlugin that istiod sends", "its VM has no vm_id, as the gate's");
    waypoint.stop().await?;
    without_tunnels(&stage, &template, &known, &client).await?;
    by_program(&stage, &known, &client).await
}

/// The gate as a program beside the waypoint, with the arguments of its container.
async fn by_program(stage: &Stage, known: &[Value], client: &Tunnels) -> Outcome {
    let template = deploy_program(stage, "longest_request: 600s, finish: nothing").await?;
    let waypoint = agent(stage, &template, known).await?;
    let container = named(&template["spec"]["initContainers"], PROGRAM)?;
    let mut command = guarded(user::hook()?);
    command.arg("gate");
    for argument in container["args"].as_array().context("arguments")? {
        let is_admin = text(argument)?.starts_with("--envoy=");
        let own = format!("--envoy={}", waypoint.admin_address());
        command.arg(if is_admin { &own } else { text(argument)? });
    }
    let _program = Program::start(PROGRAM, command, &folder("program")?)?;
    let status = stage.status_with("count", "envoy").await?;
    ensure_eq!(status["state"], "serving", "{status}");
    let mut idle = client.http().await?;
    idle.get("/").await?.expect(200)?;
    let mut running = client.http().await?;
    running.send(&Request::get("/hold/program").bytes()).await?;
    stage.upstream.wait_held("program", 1, PATIENCE).await?;
    let status = stage.held_drain(HELD).await?;
    ensure_eq!(status["envoy_active"], 1, "{status}");
    stage.upstream.release("program");
    running.response("GET").await?.expect(200)?;
    stage.status_with("state", "drained").await?;
    ensure!(tunnels(&waypoint).await? >= 1, "the idle tunnel is still there");
    row(
        "W2",
        "the gate as a program, a request in a tunnel beside an idle tunnel",
        "held, then 200, then drained, by Envoy's count alone",
    );
    Ok(())
}

/// A request in a tunnel holds the drain, and an idle tunnel does not.
async fn held(stage: &Stage, waypoint: &Agent, client: &Tunnels) -> Outcome {
    let mut idle = client.http().await?;
    idle.get("/").await?.expect(200)?;
    let mut running = client.http().await?;
    running.send(&Request::get("/hold/one").bytes()).await?;
    stage.upstream.wait_held("one", 1, PATIENCE).await?;
    let status = stage.status_with("count", "exact").await?;
    ensure_eq!(status["scopes"][0]["in_flight"], 1, "{status}");
    wait_for(PATIENCE, "two tunnels, one of them idle", async || {
        ensure_eq!(tunnels(waypoint).await?, 2, "tunnels");
        Ok(())
    })
    .await?;
    row("W2", "a request in a tunnel, and an idle tunnel", "`count` exact, 1 in flight");
    let status = stage.held_drain(HELD).await?;
    ensure_eq!(status["holding"], 1, "{status}");
    stage.upstream.release("one");
    running.response("GET").await?.expect(200)?;
    stage.drained().await?;
    ensure!(tunnels(waypoint).await? >= 1, "the idle tunnel is still there");
    let late = idle.get("/").await?.expect(200)?;
    ensure_eq!(late.header("connection").as_deref(), Some("close"), "clients are told to leave");
    row(
        "W2",
        "a drain, the request takes 4 s more",
        "held, then 200, then drained, while an idle tunnel is open; its next request is answered \
            with `connection: close`",
    );
    serve_again(stage).await
}

/// A response that has ended for the waypoint's own connection manager, but waits in the tunnel.
async fn response_in_a_tunnel(stage: &Stage, waypoint: &Agent, client: &Tunnels) -> Outcome {
    const SIZE: usize = 10_000_000;
    let mut slow = client.http().await?;
    slow.send(&Request::get(&format!("/bytes/{SIZE}")).bytes()).await?;
    let waits = async || {
        let status = stage.status().await?;
        ensure_eq!(status["scopes"][0]["in_flight"], 0, "{status}");
        ensure!(status["buffered_bytes"].as_u64() > Some(0), "{status}");
        ensure_eq!(status["envoy_active"], 0, "for Envoy the request has ended: {status}");
        Ok(())
    };
    wait_for(PATIENCE, "a response that waits in the tunnel", waits).await?;
    stage.held_drain(HELD).await?;
    let response = slow.response("GET").await?.expect(200)?;
    ensure_eq!(response.body.len(), SIZE, "every byte");
    stage.status_with("state", "drained").await?;
    ensure!(stat(waypoint, "http2.pending_send_bytes").await? == 0, "nothing waits");
    row(
        "W2",
        "a response of 10 MB, ended for the waypoint, whose client does not read",
        "0 in flight; the bytes that wait in the tunnel hold the drain until they are read",
    );
    serve_again(stage).await
}

/// A connection that is not HTTP is not counted.
async fn raw(stage: &Stage, client: &Tunnels) -> Outcome {
    let mut raw = client.tcp().await?;
    raw.send(b"before ").await?;
    stage.drain().await?;
    stage.status_with("state", "drained").await?;
    raw.send(b"after").await?;
    row("W2", "TCP in a tunnel", "is not counted, and does not hold the drain");
    serve_again(stage).await
}

/// The same gate without `admin.tunnels`.
async fn without_tunnels(
    stage: &Stage,
    template: &Value,
    known: &[Value],
    client: &Tunnels,
) -> Outcome {
    let bootstrap = &template["metadata"]["annotations"][ANNOTATION];
    let mut other = template.clone();
    let changed = text(bootstrap)?.replace("\"tunnels\": [\"connect_terminate\"]", "");
    ensure!(changed != text(bootstrap)?, "{changed}");
    other["metadata"]["annotations"][ANNOTATION] = changed.into();
    let _waypoint = agent(stage, &other, known).await?;
    stage.status_with("state", "serving").await?;
    let mut idle = client.http().await?;
    wait_for(PATIENCE, "the waypoint", async || {
        client.http().await?.get("/").await?.expect(200).map(drop)
    })
    .await?;
    if idle.get("/").await.is_err() {
        idle = client.http().await?;
        idle.get("/").await?.expect(200)?;
    }
    stage.held_drain(HELD).await?;
    stage.status_with("count", "partial").await?;
    row(
        "W2",
        "the same gate without `admin.tunnels`, an idle tunnel",
        "`partial`: the idle tunnel holds the drain",
    );
    Ok(())
}

/// Cancels the drain.
async fn serve_again(stage: &Stage) -> Outcome {
    stage.ask_gate(Request::new("DELETE", "/drain"), 200).await?;
    stage.status_with("state", "serving").await.map(drop)
}

/// The number of open tunnels, idle or not.
async fn tunnels(waypoint: &Agent) -> Outcome<u64> {
    stat(waypoint, "http.connect_terminate.downstream_rq_active").await
}

async fn stat(waypoint: &Agent, name: &str) -> Outcome<u64> {
    waypoint.stat(name).await?.context(name.to_owned())
}

const OPTIONS: &str = "envoy.extensions.upstreams.http.v3.HttpProtocolOptions";

/// HTTP/2 with small windows, so that bytes wait in the waypoint.
fn http2() -> Value {
    let windows = json!({
        "initial_stream_window_size": 65535, "initial_connection_window_size": 65535,
    });
    json!({
        "@type": format!("type.googleapis.com/{OPTIONS}"),
        "explicit_http_config": { "http2_protocol_options": windows },
    })
}

/// A listener whose connections go through tunnels to this port of the app.
fn tunnel(name: &str, port: u16) -> Value {
    let hostname = format!("{VIP}:{port}");
    let config = json!({
        "stat_prefix": name, "cluster": "waypoint", "tunneling_config": { "hostname": hostname },
    });
    let kind = "envoy.extensions.filters.network.tcp_proxy.v3.TcpProxy";
    json!({
        "name": name, "address": socket_address("127.0.0.1", 0),
        "per_connection_buffer_limit_bytes": 32768,
        "filter_chains": [{ "filters": [extension("tcp", kind, config)] }],
    })
}

/// An Envoy in the place of ztunnel: each connection to it goes through a separate tunnel.
struct Tunnels(Envoy);

impl Tunnels {
    async fn start() -> Outcome<Self> {
        let endpoint = json!({ "endpoint": { "address": socket_address("127.0.0.1", 15008) } });
        let cluster = json!({
            "name": "waypoint", "type": "STATIC", "per_connection_buffer_limit_bytes": 32768,
            "typed_extension_protocol_options": { OPTIONS: http2() },
            "load_assignment": {
                "cluster_name": "waypoint", "endpoints": [{ "lb_endpoints": [endpoint] }],
            },
        });
        let config = json!({
            "admin": { "address": socket_address("127.0.0.1", 0) },
            "static_resources": {
                "listeners": [tunnel("http", 80), tunnel("tcp", 90)], "clusters": [cluster],
            },
        });
        Ok(Self(Envoy::start(part("envoy")?, config, Options::default()).await?))
    }

    /// A connection to the app's HTTP port.
    async fn http(&self) -> Outcome<Client> {
        Client::connect(self.0.address("http").await?).await
    }

    /// A connection to the app's other port.
    async fn tcp(&self) -> Outcome<Client> {
        Client::connect(self.0.address("tcp").await?).await
    }
}

/// A listener of istiod without the parts that Envoy does not know.
fn without_istios_own(mut listener: Value) -> Value {
    if let Some(object) = listener.as_object_mut() {
        object.remove("@type");
    }
    clean(&mut listener);
    listener
}

fn clean(value: &mut Value) {
    match value {
        Value::Object(object) => {
            if object.get("name").and_then(Value::as_str).is_some_and(|name| name.contains("tls")) {
                object.remove("typedConfig");
            }
            object.remove("transportSocket");
            // The clusters come from istiod, later.
            if let Some(Value::Object(routes)) = object.get_mut("routeConfig") {
                routes.insert("validateClusters".into(), false.into());
            }
            for (key, each) in object.iter_mut() {
                if let Some(items) = each.as_array_mut() {
                    match key.as_str() {
                        "httpFilters" => items.retain(|filter| {
                            !filter["name"].as_str().unwrap_or_default().contains("peer_metadata")
                        }),
                        "onRequestHeaders" | "onNewConnection" | "onDownstreamTlsHandshake" => {
                            items.retain(|state| {
                                let key = state["factoryKey"].as_str().unwrap_or_default();
                                !key.starts_with("istio.")
                            });
                        }
                        _ => {}
                    }
                }
                clean(each);
            }
        }
        Value::Array(items) => items.iter_mut().for_each(clean),
        _ => {}
    }
}
