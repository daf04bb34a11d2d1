//! W: a waypoint of the ambient mode. Istio makes its Deployment, and merges the rendered overlay
//! over it. No container and no ztunnel run here: an agent with the pod's labels, variables and
//! annotations is the waypoint, and Envoy is the client of its tunnels.

pub(super) mod traffic;

use std::path::PathBuf;
use std::time::Instant;

use tokio::sync::RwLock;

use super::gateway_api::{hook, template};
use super::stage::{Stage, named};
use crate::agent::{Agent, Proxy};
use crate::isolation::folder;
use crate::istio::HTTP;
use crate::objects::{Given, objects};
use crate::seen::row;
use kit::prelude::*;
use kit::wire::local;

/// The app's address in the mesh.
const VIP: &str = "10.99.0.1";
const ANNOTATION: &str = "laststream/bootstrap";
const VARIABLE: &str = "ISTIO_BOOTSTRAP_OVERRIDE";

/// W1: the Deployment that Istio makes of the files of `render all`, and the listeners that istiod
/// sends.
pub(super) async fn made_by_istio() -> Outcome {
    let stage = stage("w1").await?;
    let plain = template(&stage, stage.name, |_| true).await?;
    ensure_eq!(hook(&plain), &Value::Null, "Istio's own Deployment has no hook");
    let template = deploy(&stage, "longest_request: 30s").await?;
    let pod = &template["spec"];
    ensure_eq!(hook(&template)["exec"]["command"][0], "pilot-agent", "the hook");
    ensure_eq!(pod["terminationGracePeriodSeconds"], 40, "the grace period");
    let variable = named(&pod["containers"][0]["env"], VARIABLE)?;
    let mount = named(&pod["containers"][0]["volumeMounts"], "laststream-bootstrap")?;
    let volume = named(&pod["volumes"], "laststream-bootstrap")?;
    let item = &volume["downwardAPI"]["items"][0];
    ensure_eq!(
        variable["value"],
        format!("{}/{}", text(&mount["mountPath"])?, text(&item["path"])?),
        "the agent reads the file"
    );
    ensure_eq!(
        item["fieldRef"]["fieldPath"],
        format!("metadata.annotations['{ANNOTATION}']"),
        "the file is the annotation"
    );
    row(
        "W1",
        "a waypoint, `render all`, applied as its files say",
        "Istio's Deployment has the hook, 40 s of grace, the annotation with the gate, its volume, \
            its mount and the agent's variable",
    );
    let _agent = agent(&stage, &template, &[]).await?;
    stage.status_with("state", "serving").await?;
    row("W1", "an agent with that bootstrap", "its gate answers: serving");
    plugin_in_xds(&stage).await?;
    by_class(&stage).await
}

/// Checks that the plugin is in front of the app's requests, and not in front of the tunnels.
async fn plugin_in_xds(stage: &Stage) -> Outcome {
    let listeners = listeners(stage).await?;
    let ours = format!("{0}.{0}~", stage.name);
    for (listener, is_there) in [("main_internal", true), ("connect_terminate", false)] {
        let listener = find(&listeners, listener)?;
        for manager in managers(listener) {
            let filters = manager["httpFilters"].as_array().context("filters")?;
            let first = filters.first().map(|filter| filter["name"].to_string());
            let first = first.unwrap_or_default();
            ensure_eq!(first.contains(&ours), is_there, "{first} in {}", listener["name"]);
        }
    }
    row(
        "W1",
        "istiod's xDS for the waypoint",
        "the WasmPlugin is the first filter of every `inbound_…` connection manager, and not in \
            `connect_terminate`",
    );
    Ok(())
}

/// Held while all waypoints get something of the class.
static CLASS: RwLock<()> = RwLock::const_new(());

/// The default of the class, and the plugin for all waypoints.
async fn by_class(first: &Stage) -> Outcome {
    let _class = CLASS.write().await;
    let policy = format!(
        "name: w1-class\nmodule: {}\nplacement: {{waypoint: {{class: istio-waypoint}}}}\n\
         drain: {{longest_request: 50s}}\n",
        module()?.display()
    );
    let cluster = &first.world.cluster;
    let overlay = first.render(&["overlay"], &policy)?;
    cluster.apply(&overlay).await?;
    gateway(first, "other").await?;
    let made = template(first, "other", |template| hook(template) != &Value::Null).await?;
    ensure_eq!(made["spec"]["terminationGracePeriodSeconds"], 60, "the grace period");
    for (istio, object, sent) in PLUGINS {
        let rendered = first.render(&["wasmplugin"], &format!("{policy}{istio}"))?;
        cluster.apply(&rendered).await?;
        wait_for(PATIENCE, object, async || {
            let listeners = listeners(first).await?;
            let text = find(&listeners, "main_internal")?.to_string();
            ensure!(text.contains(sent), "{text}");
            Ok(())
        })
        .await?;
        cluster.run(&[&DELETE[..], &[object]].concat()).await?;
    }
    cluster.run(&[&DELETE[..], &["configmap/w1-class-overlay"]].concat()).await?;
    row(
        "W1",
        "the class of all waypoints",
        "a waypoint that names no ConfigMap has the hook; istiod sends the WasmPlugin to \
            waypoints, and with `istio: \"1.31\"` in the policy the TrafficExtension",
    );
    Ok(())
}

/// The end of a policy, the rendered object, and a part of the name that istiod gives the filter.
const PLUGINS: [(&str, &str, &str); 2] = [
    ("", "wasmplugin/w1-class", "/istio-system.w1-class~istio-translated-wasmplugin"),
    ("istio: '1.31'\n", "trafficextension/w1-class", "/istio-system.w1-class\""),
];
const DELETE: [&str; 3] = ["delete", "--namespace", "istio-system"];

/// A namespace with a waypoint, and the app behind it.
async fn stage(name: &'static str) -> Outcome<Stage> {
    let stage = Stage::new(name).await?;
    stage.world.cluster.definitions("gateway-api-1.6").await?;
    let (http, tcp) = (stage.upstream.h1().port(), stage.upstream.tcp().port());
    let given: &[Given<'_>] = &[("name", &name), ("vip", &VIP), ("http", &http), ("tcp", &tcp)];
    stage.apply(&objects(include_str!("../objects/waypoint.yaml"), given)?).await?;
    gateway(&stage, name).await?;
    Ok(stage)
}

fn labels(gateway: &str) -> [(&str, &str); 3] {
    [
        ("gateway.networking.k8s.io/gateway-name", gateway),
        ("gateway.networking.k8s.io/gateway-class-name", "istio-waypoint"),
        ("gateway.istio.io/managed", "istio.io-mesh-controller"),
    ]
}

async fn gateway(stage: &Stage, name: &str) -> Outcome {
    let given: &[Given<'_>] = &[("name", &stage.name), ("gateway", &name)];
    stage.apply(&objects(include_str!("../objects/waypoint_gateway.yaml"), given)?).await
}

/// Renders, applies as the README of the example says, and returns the template of the pods.
async fn deploy(stage: &Stage, drain: &str) -> Outcome<Value> {
    let rendered = rendered(stage, &format!("module: {}", module()?.display()), drain).await?;
    let made = template(stage, stage.name, |template| hook(template) != &Value::Null).await?;
    let plugin = format!("{rendered}/wasmplugin.yaml");
    stage.world.cluster.run(&["apply", "--validate=strict", "-f", &plugin]).await?;
    Ok(made)
}

/// The same with a gate that is a program.
async fn deploy_program(stage: &Stage, drain: &str) -> Outcome<Value> {
    let program = "delivery: program\nprogram_image: registry.example.com/laststream-program:1";
    rendered(stage, program, drain).await?;
    template(stage, stage.name, |template| template.to_string().contains(PROGRAM)).await
}

/// The container of a gate that is a program.
const PROGRAM: &str = "laststream-gate";

/// Renders, applies the overlay, and returns the folder.
async fn rendered(stage: &Stage, delivery: &str, drain: &str) -> Outcome<String> {
    let name = stage.name;
    let policy = format!(
        "name: {name}\nnamespace: {name}\n{delivery}\n\
         placement: {{waypoint: {{gateway: {name}}}}}\ndrain: {{{drain}}}\ngate: {{port: {}}}\n",
        stage.gate
    );
    let rendered = stage.render_all(&policy)?;
    stage.laststream(&["lint", &rendered], "")?.expect(0)?;
    let cluster = &stage.world.cluster;
    let overlay = format!("{rendered}/overlay.yaml");
    cluster.run(&["apply", "--validate=strict", "-f", &overlay]).await?;
    cluster.name_overlay(&rendered, name, name).await?;
    Ok(rendered)
}

/// The module, as a file in the waypoint.
fn module() -> Outcome<PathBuf> {
    let file = folder("module")?.join("laststream.wasm");
    if !file.exists() {
        let bytes = laststream_module::builtin().map_err(Error::msg)?;
        let other = file.with_extension(fastrand::u64(..).to_string());
        std::fs::write(&other, bytes)?;
        std::fs::rename(other, &file)?;
    }
    Ok(file)
}

/// The agent of a pod with this template. `more` is added to the static listeners of the overlay.
async fn agent(stage: &Stage, template: &Value, more: &[Value]) -> Outcome<Agent> {
    let annotations = &template["metadata"]["annotations"];
    let mut bootstrap: Value = match annotations[ANNOTATION].as_str() {
        Some(gate) => serde_saphyr::from_str(gate)?,
        None => json!({ "static_resources": { "listeners": [] } }),
    };
    let listeners = bootstrap["static_resources"]["listeners"].as_array_mut();
    listeners.context("listeners")?.extend(more.iter().cloned());
    let file = stage.user.file("bootstrap.yaml", bootstrap.to_string())?.display().to_string();
    let labels = labels(stage.name);
    let pairs = annotations.as_object().context("annotations")?;
    let pairs: Vec<(&str, &str)> =
        pairs.iter().filter_map(|(key, value)| Some((&**key, value.as_str()?))).collect();
    let proxy = Proxy {
        labels: &labels,
        annotations: &pairs,
        waypoint: true,
        variables: &[(VARIABLE, &file)],
        ..Proxy::default()
    };
    stage.proxy(&proxy).await
}

/// The time after which the app is changed, so that istiod computes the listeners again.
const UNCHANGED: Duration = Duration::from_secs(15);

/// The listeners that istiod has for the waypoint, while its agent is connected. If istiod computes
/// them before it knows the waypoint's services, they stay without these services until something
/// else changes.
async fn listeners(stage: &Stage) -> Outcome<Vec<Value>> {
    let mut changed = Instant::now();
    wait_for(PATIENCE, "istiod's listeners for the waypoint", async || {
        if changed.elapsed() >= UNCHANGED {
            changed = Instant::now();
            change_app(stage).await?;
        }
        let dump = debug(&format!("config_dump?proxyID={0}.{0}", stage.name)).await?;
        let dump: Value = serde_json::from_str(&dump)?;
        let configs = dump["configs"].as_array().context("configs")?;
        let found = configs.iter().filter_map(|config| config["dynamicListeners"].as_array());
        let found: Vec<Value> =
            found.flatten().map(|each| each["activeState"]["listener"].clone()).collect();
        let main = find(&found, "main_internal")?.to_string();
        ensure!(main.contains("inbound-vip|80|") && main.contains("trafficextension"), "{main}");
        Ok(found)
    })
    .await
}

/// Changes a label of the app's ServiceEntry, which has no effect of its own.
async fn change_app(stage: &Stage) -> Outcome {
    let label = format!("changed={}", fastrand::u32(..));
    let label = ["label", "--overwrite", "--namespace", stage.name, "serviceentry/app", &label];
    stage.world.cluster.run(&label).await.map(drop)
}

async fn debug(path: &str) -> Outcome<String> {
    let answer = once(local(HTTP), &Request::get(&format!("/debug/{path}"))).await?;
    Ok(answer.expect(200)?.text())
}

fn find<'v>(listeners: &'v [Value], name: &str) -> Outcome<&'v Value> {
    listeners.iter().find(|listener| listener["name"] == name).context(name.to_owned())
}

/// The connection managers of a listener.
fn managers(listener: &Value) -> impl Iterator<Item = &Value> {
    let chains = listener["filterChains"].as_array().into_iter().flatten();
    chains
        .filter_map(|chain| chain["filters"].as_array())
        .flatten()
        .map(|filter| &filter["typedConfig"])
        .filter(|config| config["httpFilters"].is_array())
}

fn text(value: &Value) -> Outcome<&str> {
    value.as_str().with_context(|| value.to_string())
}
