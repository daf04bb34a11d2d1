//! A stand-in for istiod and its agent. It applies an EnvoyFilter's patches to a proxy's listeners,
//! and replaces `oci://` in extension configurations. It supports only patches that rendered
//! filters use; any other is an error.

use std::path::Path;

use crate::lab::Lab;
use kit::admin_cluster::admin_cluster;
use kit::bootstrap::set;
use kit::forwarded_proto::listeners::Certificates;
use kit::prelude::*;
use kit::xds::Xds;

const HCM: &str = "envoy.filters.network.http_connection_manager";
const TYPES: [&str; 2] = [
    "type.googleapis.com/envoy.extensions.filters.http.wasm.v3.Wasm",
    "type.googleapis.com/envoy.extensions.filters.http.rbac.v3.RBAC",
];

/// A proxy of the mesh, with the upstream as its app and as Istio's agent.
pub(super) struct Proxy {
    pub(super) envoy: Envoy,
    pub(super) upstream: Upstream,
    _xds: Xds,
}

/// A listener's name, and Istio's name for its context.
type Place = (&'static str, &'static str);

/// The agent's answer to a filter that needs the module.
#[derive(Clone, Copy, Debug)]
pub(super) enum Delivery<'a> {
    /// The module in this file.
    Module(&'a Path),
    /// A filter that allows everything: the image could not be fetched, and the policy is
    /// FAIL_OPEN.
    AllowAll,
}

/// `main`, as a gateway has it.
pub(super) const GATEWAY: &[Place] = &[("main", "GATEWAY")];
/// Both sides of a sidecar.
pub(super) const SIDECAR: &[Place] = &[("in", "SIDECAR_INBOUND"), ("out", "SIDECAR_OUTBOUND")];

impl Proxy {
    /// A proxy that has filters already, such as a WasmPlugin's. With certificates, its inbound
    /// listener requires client certificates.
    pub(super) async fn start(
        lab: &Lab,
        places: &[Place],
        filter: &Value,
        there: &[Value],
        delivery: Delivery<'_>,
        certificates: Option<&Certificates>,
    ) -> Outcome<Self> {
        let upstream = Upstream::start().await?;
        let xds = Xds::new()?;
        let mut bootstrap = Bootstrap::new()
            .cluster(cluster::h1("app", upstream.h1()))
            .cluster(cluster::h1("agent", upstream.h1()))
            .cluster(cluster::h1("inbound|8080||", upstream.refused()))
            .cluster(admin_cluster("prometheus_stats"));
        for (name, context) in places {
            let listener = listener(name, context, there);
            let strict = certificates.filter(|_| *context == "SIDECAR_INBOUND");
            bootstrap =
                bootstrap.listener(strict.into_iter().fold(listener, |listener, strict| {
                    listener.mutual_tls(&strict.server, &strict.authority)
                }));
        }
        let mut bootstrap = bootstrap.build();
        let listeners =
            bootstrap["static_resources"]["listeners"].as_array_mut().context("no listeners")?;
        let patches = filter["spec"]["configPatches"].as_array().context("no configPatches")?;
        let mesh = Mesh { version: istio(lab)?, delivery, xds: &xds, places };
        let mut clusters = Vec::new();
        for patch in patches {
            if mesh.matches_version(patch)? {
                mesh.apply(patch, listeners, &mut clusters)
                    .with_context(|| format!("{patch:#}"))?;
            }
        }
        let own = bootstrap["static_resources"]["clusters"].as_array_mut();
        own.context("no clusters")?.extend(clusters);
        let options = Options { drain_time_s: Some(600), ..Options::default() };
        let envoy = Envoy::start(&lab.envoy, bootstrap, options).await?;
        Ok(Self { envoy, upstream, _xds: xds })
    }
}

fn listener(name: &str, context: &str, there: &[Value]) -> Listener {
    let hcm = Hcm::new(name)
        .upgrades()
        .route(Route::prefix("/").cluster("app").timeout("0s"))
        .use_remote_address(context == "GATEWAY", 0);
    let hcm = there.iter().cloned().fold(hcm, Hcm::filter);
    Listener::new(name, hcm).direction(if context == "SIDECAR_INBOUND" {
        "INBOUND"
    } else {
        "OUTBOUND"
    })
}

/// The version of Istio that has this Envoy: 1.28 has 1.36, and so on.
fn istio(lab: &Lab) -> Outcome<String> {
    let version = lab.version.to_string();
    let minor = version.split('.').nth(1).context("no minor version")?;
    Ok(format!("1.{}.0", minor.parse::<u32>().context("the minor version")? - 8))
}

struct Mesh<'a> {
    /// The version that the proxy says of itself.
    version: String,
    delivery: Delivery<'a>,
    xds: &'a Xds,
    places: &'a [Place],
}

impl Mesh<'_> {
    fn apply(
        &self,
        patch: &Value,
        listeners: &mut Vec<Value>,
        clusters: &mut Vec<Value>,
    ) -> Outcome {
        let value = &patch["patch"]["value"];
        let operation = patch["patch"]["operation"].as_str().context("no operation")?;
        match (patch["applyTo"].as_str().context("no applyTo")?, operation) {
            ("EXTENSION_CONFIG", "ADD") => self.fetch(value),
            ("HTTP_FILTER", "INSERT_FIRST") => {
                let filter = self.discovering(value)?;
                let insert = |manager: &mut Value| {
                    if let Some(filters) = manager["http_filters"].as_array_mut() {
                        filters.insert(0, filter.clone());
                    }
                };
                self.managers(patch, listeners, insert)
            }
            ("NETWORK_FILTER", "MERGE") => {
                ensure_eq!(value["name"], HCM, "the filter's name");
                self.managers(patch, listeners, |manager| merge(manager, &value["typed_config"]))
            }
            ("ROUTE_CONFIGURATION", "MERGE") => self
                .managers(patch, listeners, |manager| merge(&mut manager["route_config"], value)),
            ("LISTENER", "ADD") => self.add(patch, listeners),
            ("CLUSTER", "ADD") => {
                clusters.push(value.clone());
                Ok(())
            }
            (what, operation) => bail!("istiod has not been taught {operation} for {what}"),
        }
    }

    /// Whether the patch is for proxies of this version.
    fn matches_version(&self, patch: &Value) -> Outcome<bool> {
        let Some(pattern) = patch.pointer("/match/proxy/proxyVersion") else { return Ok(true) };
        let pattern = pattern.as_str().context("proxyVersion")?;
        Ok(regex::Regex::new(pattern).context("proxyVersion")?.is_match(&self.version))
    }

    /// Replaces the image by a file, as the agent does after it fetched the image.
    fn fetch(&self, value: &Value) -> Outcome {
        let name = value["name"].as_str().context("no name")?;
        let mut config = value["typed_config"].clone();
        let remote = &config["config"]["vm_config"]["code"]["remote"];
        let uri = remote["http_uri"]["uri"].as_str().context("no uri")?;
        let digest = uri
            .strip_prefix("oci://")
            .and_then(|uri| uri.split_once("@sha256:"))
            .context("the uri is not pinned")?
            .1;
        ensure_eq!(remote["sha256"], digest, "the manifest's digest");
        ensure!(
            remote["http_uri"]["cluster"].is_string() && remote["http_uri"]["timeout"].is_string(),
            "Envoy requires both"
        );
        match self.delivery {
            Delivery::Module(file) => {
                set(
                    &mut config,
                    "/config/vm_config/code",
                    json!({ "local": { "filename": file.display().to_string() } }),
                );
                self.xds.write_filter(name, &config)
            }
            Delivery::AllowAll => self.xds.write_filter(name, &json!({ "@type": TYPES[1] })),
        }
    }

    /// Replaces discovery over a stream by discovery from files; the types stay as they are.
    fn discovering(&self, filter: &Value) -> Outcome<Value> {
        let mut filter = filter.clone();
        if filter.get("config_discovery").is_some() {
            let discovery = &filter["config_discovery"];
            ensure!(
                discovery["config_source"]["ads"].is_object(),
                "only what comes over ADS is rewritten"
            );
            ensure_eq!(discovery["type_urls"], json!(TYPES), "the types");
            let name = filter["name"].as_str().context("no name")?;
            let source = self.xds.filter_source(name);
            set(&mut filter, "/config_discovery/config_source", source);
        }
        Ok(filter)
    }

    fn managers(
        &self,
        patch: &Value,
        listeners: &mut [Value],
        mut change: impl FnMut(&mut Value),
    ) -> Outcome {
        let matching = &patch["match"];
        let context = matching["context"].as_str().context("no context")?;
        if let Some(name) = matching.pointer("/listener/filterChain/filter/name") {
            ensure_eq!(*name, HCM, "the filter that is looked for");
        }
        let mut found = 0;
        for listener in listeners {
            let here = self
                .places
                .iter()
                .any(|(name, place)| listener["name"] == *name && *place == context);
            if here
                && let Some(manager) =
                    listener.pointer_mut("/filter_chains/0/filters/0/typed_config")
            {
                change(manager);
                found += 1;
            }
        }
        ensure_eq!(found, 1, "listeners in {context}");
        Ok(())
    }

    fn add(&self, patch: &Value, listeners: &mut Vec<Value>) -> Outcome {
        let context = patch["match"]["context"].as_str().context("no context")?;
        ensure!(
            self.places.iter().any(|(_, place)| *place == context),
            "{context} is not of this proxy"
        );
        let mut listener = patch["patch"]["value"].clone();
        ensure!(listener["name"].is_string(), "istiod drops a listener without a name");
        set(&mut listener, "/address/socket_address/port_value", json!(0));
        let filters = "/filter_chains/0/filters/0/typed_config/http_filters";
        let filters =
            listener.pointer_mut(filters).and_then(Value::as_array_mut).context("no filters")?;
        for filter in filters {
            *filter = self.discovering(filter)?;
        }
        listeners.push(listener);
        Ok(())
    }
}

/// Merges as protobuf does: lists grow, messages merge, everything else is replaced.
fn merge(target: &mut Value, patch: &Value) {
    match (target, patch) {
        (Value::Object(target), Value::Object(patch)) => {
            for (name, value) in patch {
                merge(target.entry(name).or_insert(Value::Null), value);
            }
        }
        (Value::Array(target), Value::Array(patch)) => target.extend(patch.iter().cloned()),
        (target, patch) => *target = patch.clone(),
    }
}
