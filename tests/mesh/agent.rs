//! A proxy of the mesh: Istio's agent with its Envoy, as a process on the loopback interface, with
//! separate ports.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU16, Ordering};

use crate::isolation::folder;
use crate::istio::Istio;
use crate::parts::part;
use crate::program::Program;
use kit::admin::Admin;
use kit::prelude::*;
use kit::process::guarded;
use kit::wire::local;

/// A proxy, as its pod would describe it.
#[derive(Default)]
pub(crate) struct Proxy<'a> {
    pub(crate) name: &'a str,
    pub(crate) namespace: &'a str,
    pub(crate) labels: &'a [(&'a str, &'a str)],
    pub(crate) annotations: &'a [(&'a str, &'a str)],
    /// The proxy is beside an app; it is not a gateway.
    pub(crate) sidecar: bool,
    /// The proxy is a waypoint. Envoy refuses the listeners that istiod has for it, because they
    /// have filters of Istio's own proxy, so its agent never becomes ready.
    pub(crate) waypoint: bool,
    /// The registry that the agent asks without TLS.
    pub(crate) registry: &'a str,
    /// The service account's token for istiod's authority.
    pub(crate) token: &'a str,
    /// Further environment variables of the agent.
    pub(crate) variables: &'a [(&'a str, &'a str)],
}

/// A running agent with its Envoy. Dropping it ends the process.
pub(crate) struct Agent {
    pub(crate) program: Program,
    /// The pod's address.
    pub(crate) address: String,
    ports: Ports,
}

#[derive(Clone, Copy)]
struct Ports {
    admin: u16,
    agent: u16,
    health: u16,
    prometheus: u16,
}

impl Ports {
    /// Four ports below those that [`free_port`](kit::wire::free_port) gives away.
    fn next() -> Self {
        static NEXT: AtomicU16 = AtomicU16::new(12_000);
        let first = NEXT.fetch_add(4, Ordering::Relaxed);
        Self { admin: first, agent: first + 1, health: first + 2, prometheus: first + 3 }
    }
}

impl Agent {
    /// Starts the agent, and waits until it is ready. A waypoint's agent is not waited for.
    pub(crate) async fn start(istio: &Istio, proxy: &Proxy<'_>) -> Outcome<Self> {
        let mut agent = Self::launch(istio, proxy)?;
        if proxy.waypoint {
            return Ok(agent);
        }
        let health = local(agent.ports.health);
        let ready = async || ready_at(health).await;
        agent.program.ready(PATIENCE, ready).await?;
        Ok(agent)
    }

    /// Whether the agent's readiness endpoint answers 200.
    pub(crate) async fn is_ready(&self) -> bool {
        ready_at(local(self.ports.health)).await.is_ok()
    }

    /// Starts the agent without waiting.
    pub(crate) fn launch(istio: &Istio, proxy: &Proxy<'_>) -> Outcome<Self> {
        let ports = Ports::next();
        let folder = folder(&format!("{}-{}", proxy.name, ports.admin))?;
        write_pod(&folder, istio, proxy)?;
        let [high, low] = (ports.admin / 4).to_be_bytes();
        let address = format!("127.1.{high}.{low}");
        let mut command = command(&folder, istio, proxy, ports, &address)?;
        command.current_dir(&folder).env("HOME", &folder);
        Ok(Self { program: Program::start(proxy.name, command, &folder)?, address, ports })
    }

    /// Ends the agent, and waits for its Envoy, which outlives it for a moment: it would share its
    /// ports with the next one.
    pub(crate) async fn stop(self) -> Outcome {
        let admin = self.admin_address();
        drop(self);
        wait_for(PATIENCE, "the former Envoy to end", async || {
            let is_there = tokio::net::TcpStream::connect(admin).await.is_ok();
            ensure!(!is_there, "{admin} accepts connections");
            Ok(())
        })
        .await
    }

    fn admin(&self) -> Admin {
        Admin(self.admin_address())
    }

    pub(crate) fn admin_address(&self) -> SocketAddr {
        local(self.ports.admin)
    }

    pub(crate) async fn admin_get(&self, path: &str) -> Outcome<Response> {
        self.admin().get(path).await
    }

    /// A part of Envoy's configuration, such as `ecds_filters`.
    pub(crate) async fn dump(&self, resource: &str) -> Outcome<Value> {
        self.admin_get(&format!("/config_dump?resource={resource}")).await?.expect(200)?.json()
    }

    /// The listeners that Envoy uses now.
    pub(crate) async fn active_listeners(&self) -> Outcome<String> {
        let dump = self.dump("dynamic_listeners").await?;
        let listeners = dump["configs"].as_array().context("no listeners")?;
        Ok(listeners.iter().map(|listener| listener["active_state"].to_string()).collect())
    }

    /// One of Envoy's counters or gauges.
    pub(crate) async fn stat(&self, name: &str) -> Outcome<Option<u64>> {
        self.admin().stat(name).await
    }

    /// Waits until a counter or gauge has this value.
    pub(crate) async fn wait_for_stat(&self, name: &str, expected: u64) -> Outcome {
        wait_for(PATIENCE, name, async || {
            ensure_eq!(self.stat(name).await?, Some(expected), "{name}");
            Ok(())
        })
        .await
    }

    /// The agent's own port, 15020 in a pod.
    pub(crate) fn agent(&self) -> SocketAddr {
        local(self.ports.agent)
    }

    /// Envoy's Prometheus port, 15090 in a pod.
    pub(crate) fn prometheus(&self) -> SocketAddr {
        local(self.ports.prometheus)
    }
}

async fn ready_at(health: SocketAddr) -> Outcome {
    once(health, &Request::get("/healthz/ready")).await?.expect(200).map(drop)
}

/// Writes the files that kubelet would put into the container.
fn write_pod(folder: &Path, istio: &Istio, proxy: &Proxy<'_>) -> Outcome {
    let write = |name: &str, text: &str| -> Outcome {
        let file = folder.join(name);
        fs::create_dir_all(file.parent().context("a folder")?)?;
        Ok(fs::write(file, text)?)
    };
    let lines = |pairs: &[(&str, &str)]| {
        pairs.iter().map(|(key, value)| format!("{key}={value:?}\n")).collect::<String>()
    };
    write("etc/istio/pod/labels", &lines(proxy.labels))?;
    write("etc/istio/pod/annotations", &lines(proxy.annotations))?;
    write("var/run/secrets/istio/root-cert.pem", &istio.root_certificate)?;
    write("var/run/secrets/tokens/istio-token", proxy.token)
}

/// Istio's template of the bootstrap. The template of a waypoint has an extension of Istio's own
/// proxy, with which Envoy's own build does not start, so that part is switched off.
fn template(folder: &Path, proxy: &Proxy<'_>) -> Outcome<PathBuf> {
    const DISCOVERY: &str = "{{- if .metadata_discovery }}";
    let original = part("envoy_bootstrap.json")?;
    if !proxy.waypoint {
        return Ok(original.to_owned());
    }
    let text = fs::read_to_string(original)?;
    ensure!(text.contains(DISCOVERY), "the template has no {DISCOVERY}");
    let file = folder.join("envoy_bootstrap.json");
    fs::write(&file, text.replace(DISCOVERY, "{{- if false }}"))?;
    Ok(file)
}

fn command(
    folder: &Path,
    istio: &Istio,
    proxy: &Proxy<'_>,
    ports: Ports,
    address: &str,
) -> Outcome<Command> {
    let discovery = format!("{}:15012", istio.address);
    let config = json!({
        "binaryPath": part("envoy")?, "configPath": "./etc/istio/proxy", "concurrency": 2,
        "discoveryAddress": discovery,
        "proxyAdminPort": ports.admin, "statusPort": ports.agent,
    });
    let mut command = guarded(part("pilot-agent")?);
    let role = match proxy {
        Proxy { waypoint: true, .. } => "waypoint",
        Proxy { sidecar: true, .. } => "sidecar",
        Proxy { .. } => "router",
    };
    command.args(["proxy", role, "--domain"]);
    command.arg(format!("{}.svc.cluster.local", proxy.namespace));
    command.arg("--templateFile").arg(template(folder, proxy)?);
    command.args(["--proxyLogLevel=warning", "--proxyComponentLogLevel=wasm:info"]);
    command.arg("--log_output_level=default:info,wasm:debug");
    command.env_clear().env("PATH", "/usr/bin:/bin").env("PROXY_CONFIG", config.to_string());
    command.envs([
        ("POD_NAME", proxy.name),
        ("POD_NAMESPACE", proxy.namespace),
        ("INSTANCE_IP", address),
        ("SERVICE_ACCOUNT", proxy.name),
    ]);
    command
        .envs([("ISTIO_META_CLUSTER_ID", "Kubernetes"), ("ISTIO_META_WORKLOAD_NAME", proxy.name)]);
    command
        .env("ENVOY_STATUS_PORT", ports.health.to_string())
        .env("ENVOY_PROMETHEUS_PORT", ports.prometheus.to_string());
    command.env("WASM_INSECURE_REGISTRIES", proxy.registry).env("CA_ADDR", &discovery);
    if proxy.sidecar {
        command.env("ISTIO_META_INTERCEPTION_MODE", "NONE"); // this level has no iptables
    }
    command.envs(proxy.variables.iter().copied());
    Ok(command)
}
