//! Rendered manifests work on real Envoys: EnvoyFilters as istiod would apply them, and bootstraps
//! as they are.

use laststream_policy::{Overrides, Policy};
use laststream_render::{Kind, render};

use super::mesh::{Delivery, GATEWAY, Proxy};
use crate::lab::Lab;
use kit::bootstrap::filters;
use kit::h1::Connect;
use kit::prelude::*;

/// The EnvoyFilter of a folder's policy. The tests' clients are on the loopback interface.
pub(super) fn filter(folder: &str) -> Outcome<Value> {
    yaml(Kind::EnvoyFilter, &policy(folder)?)
}

/// The same, where the module restores the scheme on every proxy.
pub(super) fn by_module(folder: &str) -> Outcome<Value> {
    yaml(Kind::EnvoyFilter, &(policy(folder)? + "engine: wasm\n"))
}

fn policy(folder: &str) -> Outcome<String> {
    Ok(super::read(&format!("{folder}/policy.yaml"))?.replace("10.0.0.0/16", "127.0.0.0/30"))
}

pub(in crate::cases) fn yaml(kind: Kind, policy: &str) -> Outcome<Value> {
    all(kind, policy)?.into_iter().next().context("no document")
}

/// The rendered documents.
fn all(kind: Kind, policy: &str) -> Outcome<Vec<Value>> {
    let policy = Policy::read(policy.as_bytes(), &Overrides::default())?;
    let rendered =
        render(kind, &policy, &|_, _| Err("no module is read".into())).map_err(Error::msg)?;
    let file = rendered.files.first().context("nothing was rendered")?;
    serde_saphyr::from_multiple(&file.text).with_context(|| file.text.clone())
}

/// The EnvoyFilter beside a WasmPlugin adds the parts that the plugin cannot carry, in the right
/// places.
pub(super) async fn a_rendered_wasmplugin_restores(lab: &Lab) -> Outcome {
    let documents = all(Kind::WasmPlugin, &policy("gateway-behind-alb")?)?;
    let plugin = lab.stream(&documents[0]["spec"]["pluginConfig"].to_string()).filter();
    for before in [None, Some(claims_https())] {
        let there: Vec<Value> = before.into_iter().chain([plugin.clone()]).collect();
        let module = Delivery::Module(&lab.module);
        let proxy = Proxy::start(lab, GATEWAY, &documents[1], &there, module, None).await?;
        restores(proxy.envoy.address("main").await?, &proxy.upstream).await?;
    }
    Ok(())
}

/// A filter that is not laststream's, in front of the module.
fn claims_https() -> Value {
    let https = json!({ "key": "x-forwarded-proto", "value": "https" });
    let append = json!({ "header": https, "append_action": "OVERWRITE_IF_EXISTS_OR_ADD" });
    filters::header_mutation(json!([{ "append": append }]))
}

/// The patches for Envoy Gateway fit a listener as Envoy Gateway makes it.
pub(super) async fn rendered_envoy_gateway_patches_restore(lab: &Lab) -> Outcome {
    let policy = super::read("envoy-gateway/policy.yaml")?.replace("35.191.0.0/16", "127.0.0.0/30");
    let documents = all(Kind::EnvoyGateway, &format!("{policy}engine: wasm\n"))?;
    patched(lab, &documents, None).await?;
    patched(lab, &documents, Some(claims_https())).await.context("behind a filter")
}

async fn patched(lab: &Lab, documents: &[Value], before: Option<Value>) -> Outcome {
    let upstream = Upstream::start().await?;
    let module = lab.stream(&documents[0]["spec"]["wasm"][0]["config"].to_string()).filter();
    let hcm = before
        .into_iter()
        .chain([module])
        .fold(Hcm::new("main"), Hcm::filter)
        .route(Route::prefix("/").cluster("app"))
        .use_remote_address(true, 0);
    let mut bootstrap = Bootstrap::new()
        .cluster(cluster::h1("app", upstream.h1()))
        .listener(Listener::new("main", hcm))
        .build();
    let listener = &mut bootstrap["static_resources"]["listeners"][0];
    listener["default_filter_chain"] = listener["filter_chains"][0].take();
    listener["filter_chains"] = json!([]);
    let routes = "/default_filter_chain/filters/0/typed_config/route_config";
    for patch in documents[1]["spec"]["jsonPatches"].as_array().context("no patches")? {
        ensure_eq!(patch["name"], "edge/edge/http", "whose it is");
        let resource = match patch["type"].as_str() {
            Some("type.googleapis.com/envoy.config.listener.v3.Listener") => &mut *listener,
            Some("type.googleapis.com/envoy.config.route.v3.RouteConfiguration") => {
                listener.pointer_mut(routes).context("no routes")?
            }
            other => return Err(Error::msg(format!("{other:?}"))),
        };
        json_patch(resource, &patch["operation"])?;
    }
    let envoy = Envoy::start(&lab.envoy, bootstrap, Options::default()).await?;
    restores(envoy.address("main").await?, &upstream).await
}

/// The operation `add` of RFC 6902.
fn json_patch(resource: &mut Value, operation: &Value) -> Outcome {
    ensure_eq!(operation["op"], "add", "the operation");
    let path = operation["path"].as_str().context("no path")?;
    let (parent, last) = path.rsplit_once('/').context("no parent")?;
    match resource.pointer_mut(parent).with_context(|| format!("{parent} is not there"))? {
        Value::Array(items) => {
            items.insert(last.parse().context("no index")?, operation["value"].clone())
        }
        Value::Object(members) => _ = members.insert(last.into(), operation["value"].clone()),
        other => return Err(Error::msg(format!("{path} is in {other}"))),
    }
    Ok(())
}

/// The load balancer's header is believed, a stranger's is not, and a forged saved header has no
/// effect.
pub(super) async fn restores(main: SocketAddr, upstream: &Upstream) -> Outcome {
    let scheme = || upstream.last()?.header("x-forwarded-proto").context("no scheme");
    let https = Request::get("/").header("x-forwarded-proto", "https");
    once(main, &https).await?.expect(200)?;
    ensure_eq!(scheme()?, "https", "from the load balancer");
    ensure_eq!(upstream.last()?.header("x-laststream-forwarded-proto"), None, "the saved header");
    let empty = Request::get("/")
        .header("x-forwarded-proto", "")
        .header("x-laststream-forwarded-proto", "https");
    once(main, &empty).await?.expect(200)?;
    ensure_eq!(scheme()?, "http", "an empty header beside a forged copy");
    let stranger =
        Connect::to(main).from([127, 0, 0, 9].into()).open().await?.request(&https).await?;
    stranger.expect(200)?;
    ensure_eq!(scheme()?, "http", "from a stranger");
    Ok(())
}

/// Envoy accepts each bootstrap.
pub(super) async fn every_rendered_bootstrap_is_accepted(lab: &Lab) -> Outcome {
    let proto = "forwarded_proto: {presets: [gcp], trust: {peers: [127.0.0.1]}}";
    let identities = "forwarded_proto: {trust: {identities: [{exact: a}]}, original_header: \
        x-forwarded-proto, sources: [{header: forwarded}]}";
    let rules = "count: {exclude: {headers: [{name: x, prefix: \"\\u0085 é: # \\\"\"}]}, \
        long_lived: {grpc: true}}";
    const NLB: &str = "forwarded_proto: {presets: [nlb], trust: {peers: [10.0.0.0/16, '::1']}}";
    for (what, more) in [
        ("nothing but the module", ""),
        ("no gate", "gate: {enabled: false}"),
        (
            "another port",
            "gate: {port: 15999}\ndrain: {finish: quit, long_lived: exempt, delay: 2s}",
        ),
        ("load balancers", proto),
        ("identities", identities),
        ("rules with odd texts", rules),
        ("reversible drains", "drain: {begin: fail_health_checks, wait_for_app: {cluster: app}}"),
        ("closed", "failure_policy: closed"),
        ("destination ports", NLB),
        ("streams", "profile: streaming\ndrain: {grace_from: GRACE}"),
    ] {
        let policy =
            format!("module: {}\nplacement: {{envoy: {{}}}}\n{more}\n", lab.module.display());
        let mut config = yaml(Kind::Envoy, &policy).context(what)?;
        super::on_free_ports(&mut config);
        let envoy = Envoy::start(&lab.envoy, config, Options::default()).await.context(what)?;
        envoy.address("main").await.context(what)?;
        let refused = envoy
            .log()
            .lines()
            .find(|line| line.contains("refused") || line.contains("warning][config"))
            .map(String::from);
        ensure_eq!(refused, None, "{what}");
    }
    Ok(())
}
