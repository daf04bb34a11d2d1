//! Kubernetes: etcd, the API server, optionally the controller manager, and `kubectl`. They listen
//! on fixed ports, because each level has its own network namespace.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Value, json};

use crate::isolation::folder;
use crate::parts::part;
use crate::program::{Program, ask};
use kit::certificates::{Authority, Identity};
use kit::command::CommandOutput;
use kit::process::guarded;
use kit::user;
use kit::wait::{PATIENCE, wait_for};
use kit::{Context as _, Outcome};

const API: &str = "https://127.0.0.1:6443";
const ETCD: &str = "http://127.0.0.1:2379";
const ETCD_PEERS: &str = "http://127.0.0.1:2380";

/// What `kubectl` says when a part of the cluster did not answer in time, and refused nothing.
const TOO_SLOW: [&str; 5] = [
    "TLS handshake timeout",
    "failed calling webhook",
    "etcdserver: request timed out",
    "http2: client connection lost",
    "request did not complete within",
];
const TRIES: u32 = 5;

/// The settings that differ between levels.
#[derive(Default)]
pub(crate) struct Settings {
    /// Starts the controller manager, for Deployments, Jobs and EndpointSlices.
    pub(crate) controllers: bool,
    /// Pods get a service account's token.
    pub(crate) service_accounts: bool,
    /// Further flags of the API server.
    pub(crate) api_server: Vec<String>,
}

/// A running control plane. Dropping it ends its processes.
pub(crate) struct Cluster {
    folder: PathBuf,
    programs: Vec<Program>,
}

impl Cluster {
    pub(crate) async fn start(settings: &Settings) -> Outcome<Self> {
        let folder = folder("kubernetes")?;
        write_certificates(&folder)?;
        let etcd = Program::start("etcd", etcd(&folder)?, &folder)?;
        let mut api_server =
            Program::start("kube-apiserver", api_server(&folder, settings)?, &folder)?;
        let mut cluster = Self { folder, programs: vec![etcd] };
        let ready = async || cluster.run(&["get", "--raw", "/readyz"]).await.map(drop);
        api_server.ready(PATIENCE, ready).await?;
        cluster.programs.push(api_server);
        if settings.controllers {
            let controllers = cluster.controllers()?;
            cluster.programs.push(controllers);
        }
        Ok(cluster)
    }

    /// Starts the controller manager, which ends when it is dropped.
    pub(crate) fn controllers(&self) -> Outcome<Program> {
        let command = controller_manager(&self.folder)?;
        Program::start("kube-controller-manager", command, &self.folder)
    }

    /// Applies the CRDs of a release, such as `gateway-api-1.6`.
    pub(crate) async fn definitions(&self, release: &str) -> Outcome {
        let file = part("crds")?.with_file_name(format!("{release}.yaml"));
        self.definitions_of(file.to_str().context("a path")?).await
    }

    /// Applies the CRDs of a file.
    pub(crate) async fn definitions_of(&self, file: &str) -> Outcome {
        self.run(&["apply", "--server-side", "--filename", file]).await?;
        self.established().await
    }

    /// Waits until all CRDs are served, and found by `kubectl`, which is a little later.
    pub(crate) async fn established(&self) -> Outcome {
        // A wait fails at once if a new CRD has no conditions yet.
        let established = async || self.hold("Established", &["crd", "--all"]).await;
        wait_for(PATIENCE, "the CRDs", established).await?;
        let names = ["get", "crd", "--output", "jsonpath={.items[*].metadata.name}"];
        let names = self.run(&names).await?.replace(' ', ",");
        let found = async || self.run(&["get", &names, "--all-namespaces"]).await.map(drop);
        wait_for(PATIENCE, "the kinds of the CRDs", found).await
    }

    /// Waits until objects that are there have a condition with the status `True`.
    pub(crate) async fn hold(&self, condition: &str, objects: &[&str]) -> Outcome {
        let condition = format!("--for=condition={condition}");
        self.run_patiently(&[&["wait", &condition], objects].concat()).await
    }

    /// Runs a `kubectl` that waits, and names what it waits for if that does not come.
    pub(crate) async fn run_patiently(&self, arguments: &[&str]) -> Outcome {
        let timeout = format!("--timeout={}s", PATIENCE.as_secs());
        self.run(&[arguments, &[&timeout]].concat()).await.map(drop)
    }

    /// The kubeconfig of an administrator.
    pub(crate) fn kubeconfig(&self) -> PathBuf {
        self.folder.join("kubeconfig")
    }

    pub(crate) async fn kubectl(&self, arguments: &[&str]) -> Outcome<CommandOutput> {
        self.kubectl_with(arguments, "").await
    }

    /// Runs `kubectl` with standard input, and again if the API server or a webhook was too slow.
    pub(crate) async fn kubectl_with(
        &self,
        arguments: &[&str],
        input: &str,
    ) -> Outcome<CommandOutput> {
        for _ in 1..TRIES {
            let said = ask(self.kubectl_command(arguments)?, input).await?;
            let is_late = TOO_SLOW.iter().any(|text| said.stderr.contains(text));
            if said.code == Some(0) || !is_late {
                return Ok(said);
            }
        }
        ask(self.kubectl_command(arguments)?, input).await
    }

    pub(crate) fn kubectl_command(&self, arguments: &[&str]) -> Outcome<Command> {
        let mut command = guarded(part("mesh-kubectl")?);
        command.args(arguments).env("KUBECONFIG", self.kubeconfig()).env("HOME", &self.folder);
        Ok(command)
    }

    /// Standard output of a `kubectl` that must succeed.
    pub(crate) async fn run(&self, arguments: &[&str]) -> Outcome<String> {
        let said = self.kubectl(arguments).await?.expect(0);
        Ok(said.with_context(|| format!("kubectl {}", arguments.join(" ")))?.stdout)
    }

    /// Patches an object, such as `gateway/edge`. `how` has the type of the patch, and the patch or
    /// its file.
    pub(crate) async fn patch(&self, namespace: &str, object: &str, how: &[&str]) -> Outcome {
        let patch = ["patch", object, "--namespace", namespace];
        self.run(&[&patch[..], how].concat()).await.map(drop)
    }

    /// Applies the files of `laststream render all` for a Gateway, as they say.
    pub(crate) async fn apply_rendered(
        &self,
        folder: &str,
        namespace: &str,
        name: &str,
    ) -> Outcome {
        self.run(&["apply", "--validate=strict", "--kustomize", folder]).await?;
        self.name_overlay(folder, namespace, name).await
    }

    /// Applies the rendered patch of a Gateway.
    pub(crate) async fn name_overlay(&self, folder: &str, namespace: &str, name: &str) -> Outcome {
        let patch = format!("--patch-file={folder}/gateway.patch.yaml");
        self.patch(namespace, &format!("gateway/{name}"), &["--type=merge", &patch]).await
    }

    /// Lets a Gateway name no overlay.
    pub(crate) async fn forget_overlay(&self, namespace: &str, name: &str) -> Outcome {
        let remove = r#"[{"op": "remove", "path": "/spec/infrastructure/parametersRef"}]"#;
        let how = ["--type=json", "--patch", remove];
        self.patch(namespace, &format!("gateway/{name}"), &how).await
    }

    /// Runs `kubectl apply -f -` with strict validation, which rejects unknown fields.
    pub(crate) async fn apply(&self, objects: &str) -> Outcome<CommandOutput> {
        self.kubectl_with(&["apply", "--validate=strict", "-f", "-"], objects).await?.expect(0)
    }

    /// Applies objects that may be too large for an annotation.
    pub(crate) async fn apply_server_side(&self, objects: &str) -> Outcome {
        let apply = ["apply", "--server-side", "-f", "-"];
        self.kubectl_with(&apply, objects).await?.expect(0).map(drop)
    }

    /// Applies JSON objects.
    pub(crate) async fn apply_all(&self, objects: &[Value]) -> Outcome {
        let list = json!({ "apiVersion": "v1", "kind": "List", "items": objects });
        self.apply(&list.to_string()).await.map(drop)
    }

    pub(crate) async fn namespace(&self, name: &str) -> Outcome {
        self.run(&["create", "namespace", name]).await.map(drop)
    }

    /// Creates a namespace in whose pods Istio injects its proxy.
    pub(crate) async fn injected_namespace(&self, name: &str) -> Outcome {
        self.namespace(name).await?;
        self.run(&["label", "namespace", name, "istio-injection=enabled"]).await.map(drop)
    }

    /// A command `laststream` with the kubeconfig of an administrator.
    pub(crate) fn laststream_command(&self, arguments: &[&str]) -> Outcome<Command> {
        let mut command = guarded(user::laststream()?);
        command.args(arguments).env("KUBECONFIG", self.kubeconfig());
        command.env("HOME", std::env::temp_dir());
        Ok(command)
    }

    pub(crate) async fn laststream(&self, arguments: &[&str]) -> Outcome<CommandOutput> {
        ask(self.laststream_command(arguments)?, "").await
    }

    /// Applies the ClusterRoles of the project.
    pub(crate) async fn apply_roles(&self) -> Outcome {
        let rights = kit::workspace().join("envoyfilter-manifests/rights");
        let rights = rights.to_str().context("a path")?;
        self.run(&["apply", "--kustomize", rights]).await.map(drop)
    }

    /// Binds ClusterRoles to a user, for a namespace or for the whole cluster.
    pub(crate) async fn bind(
        &self,
        namespace: Option<&str>,
        roles: &[&str],
        user: &str,
    ) -> Outcome {
        const GROUP: &str = "rbac.authorization.k8s.io";
        let kind = if namespace.is_some() { "RoleBinding" } else { "ClusterRoleBinding" };
        let binding = |role: &&str| {
            json!({
                "apiVersion": format!("{GROUP}/v1"), "kind": kind,
                "metadata": { "name": role, "namespace": namespace },
                "roleRef": { "apiGroup": GROUP, "kind": "ClusterRole", "name": role },
                "subjects": [{ "apiGroup": GROUP, "kind": "User", "name": user }],
            })
        };
        self.apply_all(&roles.iter().map(binding).collect::<Vec<_>>()).await
    }

    /// An object as JSON, or the list of a kind.
    pub(crate) async fn get(&self, namespace: &str, object: &str) -> Outcome<Value> {
        let said = self.run(&["get", "--namespace", namespace, object, "--output", "json"]).await?;
        serde_json::from_str(&said).context("what kubectl says")
    }
}

/// Whether the object has this condition with the status `True`.
pub(crate) fn holds(object: &Value, name: &str) -> bool {
    let mut conditions = object["status"]["conditions"].as_array().into_iter().flatten();
    conditions.any(|condition| condition["type"] == name && condition["status"] == "True")
}

fn etcd(folder: &Path) -> Outcome<Command> {
    let mut command = guarded(part("etcd")?);
    command.args(["--name", "laststream", "--data-dir"]).arg(folder.join("etcd"));
    command.args(["--listen-client-urls", ETCD, "--advertise-client-urls", ETCD]);
    let peers = ["--listen-peer-urls", ETCD_PEERS, "--initial-advertise-peer-urls", ETCD_PEERS];
    command.args(peers).arg(format!("--initial-cluster=laststream={ETCD_PEERS}"));
    command.args(["--unsafe-no-fsync", "--log-level", "warn"]);
    Ok(command)
}

fn api_server(folder: &Path, settings: &Settings) -> Outcome<Command> {
    let mut command = guarded(part("kube-apiserver")?);
    let file = |flag: &str, name: &str| format!("--{flag}={}", folder.join(name).display());
    command.args([
        file("tls-cert-file", "api-server.crt"),
        file("tls-private-key-file", "api-server.key"),
        file("client-ca-file", "ca.crt"),
        file("kubelet-client-certificate", "kubelet-client.crt"),
        file("kubelet-client-key", "kubelet-client.key"),
        file("service-account-key-file", "service-accounts.crt"),
        file("service-account-signing-key-file", "service-accounts.key"),
    ]);
    command.args(["--etcd-servers", ETCD, "--secure-port=6443"]);
    command.args(["--bind-address=127.0.0.1", "--advertise-address=127.0.0.1"]);
    command.args([
        "--endpoint-reconciler-type=none",
        "--service-cluster-ip-range=10.0.0.0/24",
        "--authorization-mode=RBAC",
    ]);
    command.args([
        "--service-account-issuer=https://kubernetes.default.svc",
        "--allow-privileged=true",
        "--profiling=false",
    ]);
    if !settings.service_accounts {
        command.arg("--disable-admission-plugins=ServiceAccount");
    }
    command.args(&settings.api_server);
    Ok(command)
}

fn controller_manager(folder: &Path) -> Outcome<Command> {
    let mut command = guarded(part("kube-controller-manager")?);
    let file = |flag: &str, name: &str| format!("--{flag}={}", folder.join(name).display());
    command.args([
        file("kubeconfig", "kubeconfig"),
        file("root-ca-file", "ca.crt"),
        file("service-account-private-key-file", "service-accounts.key"),
    ]);
    command.args([
        "--leader-elect=false",
        "--use-service-account-credentials=false",
        "--secure-port=0",
        "--profiling=false",
    ]);
    Ok(command)
}

fn write_certificates(folder: &Path) -> Outcome {
    let authority = Authority::new()?;
    let write = |name: &str, identity: &Identity| -> Outcome {
        fs::write(folder.join(format!("{name}.crt")), &identity.certificate_pem)?;
        Ok(fs::write(folder.join(format!("{name}.key")), &identity.key_pem)?)
    };
    fs::write(folder.join("ca.crt"), authority.pem())?;
    write("api-server", &authority.server_named(&["kubernetes.default.svc", "10.0.0.1"])?)?;
    let admin = authority.user("admin", "system:masters")?;
    write("admin", &admin)?;
    write("kubelet-client", &authority.user("kube-apiserver-kubelet-client", "system:masters")?)?;
    // The certificate is not used, only its keys.
    write("service-accounts", &authority.user("service-accounts", "laststream")?)?;
    let config = json!({
        "apiVersion": "v1", "kind": "Config", "current-context": "mesh",
        "clusters": [
            {
                "name": "mesh",
                "cluster": { "server": API, "certificate-authority": folder.join("ca.crt") },
            },
        ],
        "users": [
            {
                "name": "admin",
                "user": {
                    "client-certificate": folder.join("admin.crt"),
                    "client-key": folder.join("admin.key"),
                },
            },
        ],
        "contexts": [{ "name": "mesh", "context": { "cluster": "mesh", "user": "admin" } }],
    });
    Ok(fs::write(folder.join("kubeconfig"), config.to_string())?)
}
