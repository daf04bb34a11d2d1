//! Envoy Gateway's controller as a process. It reads its certificates from /certs, so it runs in a
//! root folder of its own, which its shutdown manager shares.

use std::fs;
use std::path::Path;
use std::process::Command;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;

use super::root::Root;
use crate::cluster::Cluster;
use crate::isolation::folder;
use crate::parts::part;
use crate::program::{Program, ask};
use kit::prelude::*;

/// The namespace of the controller, and of the proxies.
pub(crate) const NAMESPACE: &str = "envoy-gateway-system";
/// The namespace of the Gateways.
pub(crate) const EDGE: &str = "edge";
/// The host name under which proxies look for the controller.
pub(crate) const HOST: &str = "envoy-gateway.envoy-gateway-system.svc.cluster.local";
/// The class of its Gateways.
pub(crate) const CLASS: &str = "envoy";
const PROGRAM: &str = "/envoy-gateway";

/// A running controller. Dropping it ends the process.
pub(crate) struct Controller {
    root: Root,
    program: Program,
}

impl Controller {
    pub(crate) async fn start(cluster: &Cluster) -> Outcome<Self> {
        let root = root()?;
        let crds = part("envoy-gateway")?.with_file_name("crds").display().to_string();
        cluster.definitions_of(&crds).await?;
        for namespace in [NAMESPACE, EDGE] {
            cluster.namespace(namespace).await?;
        }
        cluster.apply_all(&[class()]).await?;
        let mut certificates = within(&root, cluster);
        certificates.args(["certgen", "--disable-topology-injector"]);
        ask(certificates, "").await?.expect(0)?;
        write_secret(cluster, "envoy-gateway", &root.folder("/certs")?).await?;
        fs::write(root.path("/settings.json"), settings().to_string())?;
        let mut server = within(&root, cluster);
        server.args(["server", "--config-path", "/settings.json"]);
        let program = Program::start("envoy-gateway", server, &folder("envoy-gateway-log")?)?;
        Ok(Self { root, program })
    }

    pub(crate) fn log(&self) -> String {
        self.program.log()
    }

    /// Envoy Gateway's program without arguments, as in a container of its image.
    pub(crate) fn command(&self) -> Command {
        self.root.command(PROGRAM)
    }

    /// Removes a file that containers of this image share, because no container removes it.
    pub(crate) fn forget(&self, file: &str) {
        fs::remove_file(self.root.path(file)).ok(); // it need not be there
    }
}

/// Writes the files of a Secret into a folder.
pub(crate) async fn write_secret(cluster: &Cluster, name: &str, folder: &Path) -> Outcome {
    let secret = cluster.get(NAMESPACE, &format!("secret/{name}")).await?;
    fs::create_dir_all(folder)?;
    for (file, text) in secret["data"].as_object().context("data")? {
        fs::write(folder.join(file), BASE64.decode(text.as_str().unwrap_or_default())?)?;
    }
    Ok(())
}

fn class() -> Value {
    json!({
        "apiVersion": "gateway.networking.k8s.io/v1", "kind": "GatewayClass",
        "metadata": { "name": CLASS },
        "spec": { "controllerName": "gateway.envoyproxy.io/gatewayclass-controller" },
    })
}

/// The controller's configuration. Its ports are moved, because its Envoys run in the same network
/// and use the default ones.
fn settings() -> Value {
    json!({
        "apiVersion": "gateway.envoyproxy.io/v1alpha1", "kind": "EnvoyGateway",
        "gateway": { "controllerName": "gateway.envoyproxy.io/gatewayclass-controller" },
        "provider": { "type": "Kubernetes", "kubernetes": {
            "leaderElection": { "disable": true },
            "proxyTopologyInjector": { "disabled": true },
        } },
        "extensionApis": { "enableEnvoyPatchPolicy": true },
        "admin": { "address": { "host": "127.0.0.1", "port": 29000 } },
        "telemetry": { "metrics": { "prometheus": { "disable": true } } },
    })
}

fn root() -> Outcome<Root> {
    let root = Root::new("envoy-gateway")?;
    root.program(part("envoy-gateway")?, PROGRAM)?;
    let temporary = std::env::temp_dir();
    let inside = temporary.display().to_string(); // the cluster's kubeconfig is there
    root.folder(&inside)?;
    root.bind(&temporary, &inside)?;
    Ok(root)
}

fn within(root: &Root, cluster: &Cluster) -> Command {
    let mut command = root.command(PROGRAM);
    command.env("KUBECONFIG", cluster.kubeconfig());
    command.envs([
        ("ENVOY_GATEWAY_NAMESPACE", NAMESPACE),
        ("ENVOY_POD_NAMESPACE", NAMESPACE),
        ("POD_NAME", "envoy-gateway-0"),
    ]);
    command
}
