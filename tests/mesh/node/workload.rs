//! Deployments as users write them, of an app with an injected sidecar or of a gateway, and the
//! additions that `laststream render` makes to them.

use std::time::Instant;

use super::image::{APP, IMAGE};
use super::inside;
use super::machine::NAME;
use super::world::World;
use crate::cluster::holds;
use kit::command::CommandOutput;
use kit::prelude::*;

/// The port on which a sidecar takes requests; the app itself listens on the loopback interface.
pub(crate) const SIDECAR: u16 = 8000;
/// The port on which gateways listen.
pub(crate) const GATEWAY: u16 = 8080;
/// The port on which sidecars take calls of the app.
pub(crate) const OUTBOUND: u16 = 8100;

/// The values of [`Workload::starts`].
pub(crate) const HOOK: &str = "hook";
pub(crate) const AGENT: &str = "agent";

/// The port on which gateways take TCP connections.
pub(crate) const TCP: u16 = 9000;

/// The section of a policy by which TCP connections hold a drain.
pub(crate) fn with_tcp() -> Value {
    json!({ "count": { "tcp": [TCP] } })
}

/// A gateway's listener for TCP, and the service behind it.
pub(crate) fn tcp_route(namespace: &str, gateway: &str, service: &str) -> [Value; 2] {
    let server = json!({
        "port": { "number": TCP, "name": "tcp", "protocol": "TCP" }, "hosts": ["*"],
    });
    let own = json!({
        "apiVersion": "networking.istio.io/v1", "kind": "Gateway",
        "metadata": { "name": gateway, "namespace": namespace },
        "spec": {
            "selector": { "gateway": gateway_label(namespace, gateway) }, "servers": [server],
        },
    });
    let destination = json!({
        "host": format!("{service}.svc.cluster.local"), "port": { "number": 80 },
    });
    let route = json!({
        "apiVersion": "networking.istio.io/v1", "kind": "VirtualService",
        "metadata": { "name": gateway, "namespace": namespace },
        "spec": {
            "hosts": ["*"], "gateways": [gateway],
            "tcp": [{ "match": [{ "port": TCP }], "route": [{ "destination": destination }] }],
        },
    });
    [own, route]
}

/// The section of a policy that lets Envoy alone count.
pub(crate) fn by_envoy() -> Value {
    json!({ "count": { "by": "envoy" } })
}

/// The proxy of a Deployment.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Proxy {
    /// A sidecar as a container beside the app's.
    Classic,
    /// A sidecar as an init container that keeps running.
    Native,
    /// A gateway of Istio, without an app.
    Gateway,
    /// An app without a proxy.
    None,
}

/// A Deployment and its policy.
pub(crate) struct Workload<'a> {
    pub(crate) namespace: &'a str,
    pub(crate) name: &'a str,
    pub(crate) proxy: Proxy,
    pub(crate) replicas: u8,
    pub(crate) grace: u32,
    pub(crate) annotations: Value,
    /// The app's role in its container.
    pub(crate) role: &'static str,
    /// `lifecycle` of the app's container.
    pub(crate) app_hook: Option<Value>,
    /// `lifecycle` of the proxy's container, instead of the rendered one.
    pub(crate) proxy_hook: Option<Value>,
    /// Further values of the gateway chart.
    pub(crate) values: Value,
    /// The grace period that replaces the rendered one.
    pub(crate) grace_afterwards: Option<u32>,
    /// The policy's section `drain`; without it the Deployment has no laststream.
    pub(crate) drain: Option<Value>,
    /// What starts a drain.
    pub(crate) starts: &'static str,
    /// Further sections of the policy.
    pub(crate) more: Value,
    /// The module, if it differs from the world's.
    pub(crate) module: Option<String>,
    /// Whether kubelet mounts the module.
    pub(crate) mounted: bool,
}

impl Default for Workload<'_> {
    fn default() -> Self {
        Self {
            namespace: "",
            name: "",
            proxy: Proxy::None,
            replicas: 1,
            grace: 30,
            annotations: json!({}),
            role: inside::ORDINARY_APP,
            app_hook: None,
            proxy_hook: None,
            values: json!({}),
            grace_afterwards: None,
            drain: None,
            starts: HOOK,
            more: json!({}),
            module: None,
            mounted: false,
        }
    }
}

/// A pod that is ready.
#[derive(Clone, Debug)]
pub(crate) struct Pod {
    pub(crate) name: String,
    pub(crate) address: std::net::IpAddr,
}

impl Pod {
    /// The address of its gateway's listener.
    pub(crate) fn listener(&self) -> SocketAddr {
        SocketAddr::new(self.address, GATEWAY)
    }
}

impl<'a> Workload<'a> {
    /// A Deployment with the defaults: an app without a proxy.
    pub(crate) fn app(namespace: &'a str, name: &'a str) -> Self {
        Self { namespace, name, ..Self::default() }
    }

    /// A gateway with laststream.
    pub(crate) fn gateway(namespace: &'a str, name: &'a str) -> Self {
        let drain = Some(json!({}));
        Self { proxy: Proxy::Gateway, drain, ..Self::app(namespace, name) }
    }
}

impl Workload<'_> {
    fn deployment(&self) -> Value {
        let mut annotations = self.annotations.clone();
        let mut labels = json!({ "app": self.name });
        let is_alone = self.proxy == Proxy::None;
        let address = if is_alone { format!("0.0.0.0:{SIDECAR}") } else { "127.0.0.1:8080".into() };
        let app = json!({
            "name": "app", "image": IMAGE, "imagePullPolicy": "Never", "lifecycle": self.app_hook,
            "command": [APP, inside::ROLE, self.role, address],
        });
        let containers = match self.proxy {
            Proxy::Gateway => {
                annotations["inject.istio.io/templates"] = json!("gateway");
                labels["gateway"] = json!(gateway_label(self.namespace, self.name));
                json!([{ "name": "istio-proxy", "image": "auto", "imagePullPolicy": "Never" }])
            }
            Proxy::None => {
                labels["sidecar.istio.io/inject"] = json!("false");
                json!([app])
            }
            Proxy::Classic | Proxy::Native => {
                annotations["sidecar.istio.io/nativeSidecar"] =
                    json!((self.proxy == Proxy::Native).to_string());
                json!([app])
            }
        };
        json!({
            "apiVersion": "apps/v1", "kind": "Deployment",
            "metadata": {
                "name": self.name, "namespace": self.namespace, "labels": { "app": self.name },
            },
            "spec": {
                "replicas": self.replicas, "selector": { "matchLabels": { "app": self.name } },
                "strategy": { "rollingUpdate": { "maxSurge": 1, "maxUnavailable": 0 } },
                "template": {
                    "metadata": { "labels": labels, "annotations": annotations },
                    "spec": {
                        "nodeName": NAME, "terminationGracePeriodSeconds": self.grace,
                        "containers": containers,
                    },
                },
            },
        })
    }

    fn service(&self) -> Value {
        let target = if self.proxy == Proxy::Gateway { GATEWAY } else { SIDECAR };
        // A sidecar's listener for calls accepts those to services with its port.
        let ports = [("http", 80), ("http-out", OUTBOUND)]
            .map(|(name, port)| json!({ "name": name, "port": port, "targetPort": target }));
        json!({
            "apiVersion": "v1", "kind": "Service",
            "metadata": { "name": self.name, "namespace": self.namespace },
            "spec": { "selector": { "app": self.name }, "ports": ports },
        })
    }

    fn policy(&self, drain: &Value) -> Value {
        let selector = json!({ "app": self.name });
        let placement = match self.proxy {
            Proxy::Gateway => json!({ "gateway": { "selector": selector } }),
            proxy => {
                json!({
                    "sidecar": {
                        "selector": selector, "native": proxy == Proxy::Native,
                        "workload": self.name,
                    },
                })
            }
        };
        let delivery = if self.mounted { "image_volume" } else { "proxy" };
        let mut drain = drain.clone();
        drain["starts"] = json!(self.starts);
        let mut policy = json!({
            "name": self.name, "namespace": self.namespace, "placement": placement, "drain": drain,
            "delivery": delivery, "module": self.module,
        });
        for (name, section) in self.more.as_object().into_iter().flatten() {
            policy[name] = section.clone();
        }
        policy
    }

    /// Applies all files as a user would: first the EnvoyFilter, then the Deployment with the
    /// rendered patches over it.
    pub(crate) async fn create(&self, world: &World) -> Outcome {
        let (filter, deployment) = self.files(world).await?;
        if let Some(filter) = filter {
            world.cluster.apply(&filter).await?;
        }
        world.cluster.apply_all(&[deployment, self.service()]).await
    }

    /// Applies the EnvoyFilter with another quiet period.
    pub(crate) async fn reconfigure(&self, world: &World, quiet: &str) -> Outcome {
        let mut drain = self.drain.clone().context("no gate")?;
        drain["quiet"] = json!(quiet);
        let filter = world.render(&["envoyfilter"], &self.policy(&drain))?;
        world.cluster.apply(&filter).await.map(drop)
    }

    /// Runs `laststream lint` on the same files.
    pub(crate) async fn lint(&self, world: &World) -> Outcome<CommandOutput> {
        let (filter, deployment) = self.files(world).await?;
        let text = format!("{}\n---\n{deployment}\n", filter.unwrap_or_default());
        world.user.run(&["lint", "-"], &text)
    }

    /// The EnvoyFilter, and the Deployment with all changes.
    async fn files(&self, world: &World) -> Outcome<(Option<String>, Value)> {
        let (mut filter, mut deployment) = (None, self.deployment());
        if let Some(drain) = &self.drain {
            let policy = self.policy(drain);
            filter = Some(world.render(&["envoyfilter"], &policy)?);
            deployment = self.patched(world, &policy, deployment).await?;
        }
        fill_chart(&mut deployment, &self.values);
        self.edit(&mut deployment);
        Ok((filter, deployment))
    }

    /// The Deployment with the rendered patches, merged by a kustomization.
    async fn patched(
        &self,
        world: &World,
        policy: &Value,
        mut deployment: Value,
    ) -> Outcome<Value> {
        let home = if self.proxy == Proxy::Native { "native-sidecar" } else { "pod" };
        let mut patches = Vec::new();
        if self.starts == HOOK {
            patches.push(world.render(&["lifecycle", "--for", home], policy)?);
        }
        let mut rendered = vec![world.render(&["proxy-config"], policy)?];
        if self.mounted {
            rendered.push(world.render(&["image-volume"], policy)?);
        }
        for text in rendered {
            if self.proxy == Proxy::Gateway {
                fill_chart(&mut deployment, &serde_saphyr::from_str(&text)?);
            } else {
                patches.push(text);
            }
        }
        kustomize(world, &format!("{}-{}", self.namespace, self.name), &deployment, &patches).await
    }

    /// Makes the user's changes after the rendered patches.
    fn edit(&self, deployment: &mut Value) {
        let pod = &mut deployment["spec"]["template"]["spec"];
        if let Some(grace) = self.grace_afterwards {
            pod["terminationGracePeriodSeconds"] = json!(grace);
        }
        let mut containers = pod["containers"].as_array_mut().into_iter().flatten();
        let proxy = containers.find(|container| container["name"] == "istio-proxy");
        if let (Some(hook), Some(proxy)) = (&self.proxy_hook, proxy) {
            proxy["lifecycle"] = hook.clone();
        }
    }

    /// Its pods that are ready and not terminating.
    pub(crate) fn pods(&self, world: &World) -> Vec<Pod> {
        world.pods.find(self.namespace, |pod| {
            let ours = pod["metadata"]["labels"]["app"] == self.name
                && pod["metadata"]["deletionTimestamp"].is_null();
            let address = pod["status"]["podIP"].as_str()?.parse().ok()?;
            let name = pod["metadata"]["name"].as_str()?.to_owned();
            (ours && holds(pod, "Ready")).then_some(Pod { name, address })
        })
    }

    pub(crate) async fn ready(&self, world: &World) -> Outcome<Vec<Pod>> {
        let look = async || {
            let pods = self.pods(world);
            ensure!(
                pods.len() == usize::from(self.replicas),
                "{} pods of {}/{} are ready",
                pods.len(),
                self.namespace,
                self.name
            );
            Ok(pods)
        };
        match wait_for(PATIENCE, "pods to be ready", look).await {
            Ok(pods) => Ok(pods),
            Err(failure) => Err(failure).context(describe(world, self.namespace).await),
        }
    }

    /// The first of its pods, once all are ready.
    pub(crate) async fn pod(&self, world: &World) -> Outcome<Pod> {
        self.ready(world).await?.into_iter().next().context("no pod")
    }
}

/// Writes values of the gateway chart to the places where the chart puts them.
fn fill_chart(deployment: &mut Value, values: &Value) {
    let template = &mut deployment["spec"]["template"];
    for (name, value) in values["podAnnotations"].as_object().into_iter().flatten() {
        template["metadata"]["annotations"][name] = value.clone();
    }
    let grace = "terminationGracePeriodSeconds";
    if let Some(seconds) = values.get(grace) {
        template["spec"][grace] = seconds.clone();
    }
    if let Some(volumes) = values.get("volumes") {
        template["spec"]["volumes"] = volumes.clone();
        template["spec"]["containers"][0]["volumeMounts"] = values["volumeMounts"].clone();
    }
    for (name, value) in values["env"].as_object().into_iter().flatten() {
        template["spec"]["containers"][0]["env"] = json!([{ "name": name, "value": value }]);
    }
}

/// Merges patches over an object.
pub(crate) async fn kustomize(
    world: &World,
    folder: &str,
    object: &Value,
    patches: &[String],
) -> Outcome<Value> {
    let mut names = Vec::new();
    for (number, patch) in patches.iter().enumerate() {
        let name = format!("patch-{number}.yaml");
        world.user.file(&format!("{folder}/{name}"), patch)?;
        names.push(json!({
            "path": name, "target": { "kind": object["kind"], "name": object["metadata"]["name"] },
        }));
    }
    world.user.file(&format!("{folder}/object.yaml"), object.to_string())?;
    let file = world.user.file(
        &format!("{folder}/kustomization.yaml"),
        json!({ "resources": ["object.yaml"], "patches": names }).to_string(),
    )?;
    let folder = file.parent().and_then(std::path::Path::to_str).context("a path in UTF-8")?;
    Ok(serde_saphyr::from_str(&world.cluster.run(&["kustomize", folder]).await?)?)
}

/// The pods of a namespace with their warnings and logs, for failures.
async fn describe(world: &World, namespace: &str) -> String {
    let said = async |arguments: &[&str]| world.cluster.run(arguments).await.unwrap_or_default();
    let events = ["get", "events", "--namespace", namespace, "--field-selector", "type=Warning"];
    let pods = ["get", "pods", "--namespace", namespace, "--output", "wide"];
    let mut text = format!("{}\n{}", said(&pods).await, said(&events).await);
    for pod in world.pods.find(namespace, |pod| pod["metadata"]["name"].as_str().map(str::to_owned))
    {
        let logs =
            ["logs", "--namespace", namespace, &pod, "--all-containers", "--prefix", "--tail=25"];
        text.push_str(&format!("\n{}", said(&logs).await));
    }
    text
}

/// Begins to delete a pod, and returns the time before it.
pub(crate) async fn delete(
    world: &World,
    namespace: &str,
    pod: &str,
    more: &[&str],
) -> Outcome<Instant> {
    let now = Instant::now();
    let delete = ["delete", "pod", "--namespace", namespace, pod, "--wait=false"];
    world.cluster.run(&[&delete[..], more].concat()).await?;
    Ok(now)
}

/// The `Sidecar` of a namespace: its listeners, and the services that apps may call.
pub(crate) fn sidecars(namespace: &str) -> Value {
    json!({
        "apiVersion": "networking.istio.io/v1", "kind": "Sidecar",
        "metadata": { "name": "default", "namespace": namespace },
        "spec": {
            "ingress": [{
                "port": { "number": SIDECAR, "name": "http", "protocol": "HTTP" },
                "bind": "0.0.0.0", "captureMode": "NONE",
                "defaultEndpoint": "127.0.0.1:8080",
            }],
            "egress": [{
                "port": { "number": OUTBOUND, "name": "http-out", "protocol": "HTTP" },
                "bind": "127.0.0.1", "captureMode": "NONE",
                "hosts": ["*/*"],
            }],
        },
    })
}

/// The label of a gateway's pods. It has the namespace in it, because Istio looks for the pods of a
/// Gateway in all namespaces.
pub(super) fn gateway_label(namespace: &str, name: &str) -> String {
    format!("{namespace}-{name}")
}

/// A gateway's listener, and a route for each pair of host and service.
pub(crate) fn routes(namespace: &str, gateway: &str, hosts: &[(&str, &str)]) -> Vec<Value> {
    let server = json!({
        "port": { "number": GATEWAY, "name": "http", "protocol": "HTTP" }, "hosts": ["*"],
    });
    let mut objects = vec![json!({
        "apiVersion": "networking.istio.io/v1", "kind": "Gateway",
        "metadata": { "name": gateway, "namespace": namespace },
        "spec": {
            "selector": { "gateway": gateway_label(namespace, gateway) }, "servers": [server],
        },
    })];
    for (host, service) in hosts {
        objects.push(json!({
            "apiVersion": "networking.istio.io/v1", "kind": "VirtualService",
            "metadata": {
                "name": format!("{gateway}-{}", host.replace('.', "-")), "namespace": namespace,
            },
            "spec": {
                "hosts": [host], "gateways": [gateway],
                "http": [{ "route": [{ "destination": {
                    "host": format!("{service}.svc.cluster.local"), "port": { "number": 80 },
                } }] }],
            },
        }));
    }
    objects
}
