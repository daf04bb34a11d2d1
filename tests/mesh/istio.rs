//! Istio's control plane. The manifests of Istio's own installer are applied, and istiod runs
//! beside the cluster instead of in it.

use std::path::PathBuf;
use std::process::Command;

use crate::cluster::Cluster;
use crate::isolation::folder;
use crate::parts::part;
use crate::program::{Program, ask};
use kit::command::CommandOutput;
use kit::prelude::*;
use kit::process::guarded;
use kit::wire::local;

/// The namespace of the control plane.
pub(crate) const ROOT: &str = "istio-system";

/// istiod's port for HTTP. Envoy Gateway's controller takes the usual one, 8080.
pub(crate) const HTTP: u16 = 18080;

/// A running istiod. Dropping it ends the process.
pub(crate) struct Istio {
    pub(crate) istiod: Program,
    /// The address at which proxies find istiod.
    pub(crate) address: String,
    kubeconfig: PathBuf,
    /// The certificate of istiod's authority.
    pub(crate) root_certificate: String,
}

impl Istio {
    /// Installs Istio and starts istiod. Proxies find it at `address`, an IP address of this
    /// network. `values` are Helm values.
    pub(crate) async fn start(cluster: &Cluster, address: &str, values: &Value) -> Outcome<Self> {
        cluster.namespace(ROOT).await?;
        let manifests = manifests(address, values).await?;
        cluster.apply_server_side(&manifests).await.context("what Istio's installer makes")?;
        cluster.established().await?;
        let folder = folder("istiod")?;
        let mut istiod = Program::start("istiod", istiod(cluster, address)?, &folder)?;
        let ready =
            async || once(local(HTTP), &Request::get("/ready")).await?.expect(200).map(drop);
        istiod.ready(PATIENCE, ready).await?;
        let authority = async || {
            let published = cluster.get(ROOT, "configmap/istio-ca-root-cert").await?;
            published["data"]["root-cert.pem"]
                .as_str()
                .map(String::from)
                .context("no certificate in it")
        };
        let root_certificate =
            wait_for(PATIENCE, "istiod to publish its authority", authority).await?;
        wait_for(PATIENCE, "istiod's webhooks", async || webhooks(cluster).await).await?;
        Ok(Self {
            istiod,
            address: address.into(),
            kubeconfig: cluster.kubeconfig(),
            root_certificate,
        })
    }

    /// Runs `istioctl` with the cluster's kubeconfig.
    pub(crate) async fn istioctl(&self, arguments: &[&str], input: &str) -> Outcome<CommandOutput> {
        let mut command = guarded(part("istioctl")?);
        command
            .args(arguments)
            .env("KUBECONFIG", &self.kubeconfig)
            .env("HOME", folder("istioctl")?);
        ask(command, input).await
    }

    /// The configurations that a proxy has refused, from istiod's log.
    pub(crate) fn refusals(&self, proxy: &str) -> Vec<String> {
        let about = |line: &&str| line.contains("ACK ERROR") && line.contains(proxy);
        self.istiod.log().lines().filter(about).map(String::from).collect()
    }
}

/// Whether the API server calls istiod's webhooks, and refuses what they do not answer. istiod
/// writes both after it is ready.
async fn webhooks(cluster: &Cluster) -> Outcome {
    for kind in ["mutatingwebhookconfigurations", "validatingwebhookconfigurations"] {
        let list = cluster.get(ROOT, kind).await?;
        let all = list["items"].as_array().into_iter().flatten();
        for webhook in all.filter_map(|item| item["webhooks"].as_array()).flatten() {
            let has_authority = webhook["clientConfig"]["caBundle"].is_string();
            ensure!(has_authority && webhook["failurePolicy"] == "Fail", "{webhook}");
        }
    }
    Ok(())
}

/// The manifests of `istioctl manifest generate` with these Helm values; without the Deployment,
/// because istiod runs as a process here.
pub(crate) async fn manifests(address: &str, values: &Value) -> Outcome<String> {
    let mut all = json!({
        "istiodRemote": { "injectionURL": "https://127.0.0.1:15017/inject" },
        "base": { "validationURL": "https://127.0.0.1:15017/validate" },
    });
    merge(&mut all, values);
    let mut mesh = mesh(address);
    if let Some(further) = all.as_object_mut().and_then(|values| values.remove("meshConfig")) {
        merge(&mut mesh, &further);
    }
    let operator = json!({
        "apiVersion": "install.istio.io/v1alpha1", "kind": "IstioOperator",
        "spec": { "profile": "minimal", "meshConfig": mesh, "values": all },
    });
    let file = folder("istioctl")?.join(format!("operator-{}.json", fastrand::u64(..)));
    std::fs::write(&file, operator.to_string())?;
    let mut command = guarded(part("istioctl")?);
    command
        .args(["manifest", "generate", "--filename"])
        .arg(&file)
        .env("HOME", folder("istioctl")?);
    let said = ask(command, "").await?.expect(0)?;
    let runs_pods = |document: &&str| {
        document.contains("\nkind: Deployment\n")
            || document.contains("\nkind: HorizontalPodAutoscaler\n")
    };
    Ok(said
        .stdout
        .split("\n---\n")
        .filter(|document| !runs_pods(document))
        .collect::<Vec<_>>()
        .join("\n---\n"))
}

/// The mesh configuration. The Envoy project's own build has none of Istio's filters, so no setting
/// may use them.
fn mesh(address: &str) -> Value {
    json!({
        "defaultProviders": { "metrics": [], "tracing": [], "accessLogging": [] },
        "enablePrometheusMerge": false,
        "ingressControllerMode": "OFF",
        "defaultConfig": { "discoveryAddress": format!("{address}:15012") },
    })
}

fn istiod(cluster: &Cluster, address: &str) -> Outcome<Command> {
    let mut command = guarded(part("pilot-discovery")?);
    command
        .args(["discovery", "--kubeconfig"])
        .arg(cluster.kubeconfig())
        .current_dir(folder("istiod")?)
        .env_clear();
    command.arg(format!("--httpAddr={}", local(HTTP)));
    command.args([
        "--httpsAddr=127.0.0.1:15017",
        "--monitoringAddr=127.0.0.1:15014",
        "--ctrlz_port=0",
    ]);
    command
        .arg(format!("--grpcAddr={address}:15010"))
        .arg(format!("--secureGRPCAddr={address}:15012"));
    command.envs([
        ("POD_NAMESPACE", ROOT),
        ("POD_NAME", "istiod-0"),
        ("REVISION", "default"),
        ("CLUSTER_ID", "Kubernetes"),
    ]);
    command.envs([
        ("ENABLE_CA_SERVER", "true"),
        ("PILOT_CERT_PROVIDER", "istiod"),
        ("ISTIOD_CUSTOM_HOST", "127.0.0.1"),
    ]);
    command.envs([
        ("PILOT_DEBOUNCE_AFTER", "20ms"),
        ("PILOT_ENABLE_METADATA_EXCHANGE", "false"),
        ("PILOT_ENABLE_ALPN_FILTER", "false"),
        ("PILOT_ENABLE_AMBIENT", "true"),
    ]);
    Ok(command)
}

/// Merges objects recursively, and replaces every other value.
fn merge(target: &mut Value, patch: &Value) {
    match (target, patch) {
        (Value::Object(target), Value::Object(patch)) => {
            for (name, value) in patch {
                merge(target.entry(name.as_str()).or_insert(Value::Null), value);
            }
        }
        (target, patch) => *target = patch.clone(),
    }
}
