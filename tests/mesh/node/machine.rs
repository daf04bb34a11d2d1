//! A Kubernetes node: containerd and kubelet in this level's namespaces, a bridge for its pods, and
//! an address that pods and control plane reach.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use tokio::sync::Mutex;

use super::image;
use crate::cluster::Cluster;
use crate::isolation::{CGROUP, folder, run_tool};
use crate::parts::part;
use crate::program::{Program, ask};
use kit::prelude::*;
use kit::process::guarded;
use kit::wire::local;

pub(crate) const NAME: &str = "node";
/// The address at which pods find istiod and the registry, and the API server finds kubelet.
/// Kubelet refuses a loopback address for its node.
pub(crate) const ADDRESS: &str = "10.99.0.1";
const PODS: &str = "10.244.0.0/24";
const SOCKET: &str = "/run/containerd/containerd.sock";
const CGROUPS: &str = "/sys/fs/cgroup";

/// A running node. Dropping it ends its processes.
pub(crate) struct Machine {
    folder: PathBuf,
    kubeconfig: PathBuf,
    kubelet: Mutex<Option<Program>>,
    _containerd: Program,
}

impl Machine {
    /// Sets up the address that pods reach. It comes first, because other programs listen there.
    pub(crate) fn network() -> Outcome {
        run_tool("ip", &["address", "add", &format!("{ADDRESS}/32"), "dev", "lo"])?;
        Ok(fs::write("/proc/sys/net/ipv4/ip_forward", "1")?)
    }

    /// Starts containerd with the image, before there is a cluster.
    pub(crate) async fn containers() -> Outcome<Program> {
        let folder = folder("node")?;
        // kubelet and containers see each other's mounts
        run_tool("mount", &["--make-rshared", "/"])?;
        for path in ["/run", "/var/log"] {
            run_tool("mount", &["-t", "tmpfs", "-o", "mode=755", "laststream", path])?;
        }
        fs::create_dir_all("/run/lock")?;
        make_cgroups()?;
        let archive = tokio::task::spawn_blocking({
            let folder = folder.clone();
            move || image::write(&folder)
        });
        let mut containerd = Program::start("containerd", containerd(&folder)?, &folder)?;
        containerd.ready(PATIENCE, async || ctr(&["version"]).await).await?;
        let archive = archive.await.context("a thread for the image")??;
        ctr(&[
            "--namespace",
            "k8s.io",
            "images",
            "import",
            archive.to_str().context("a path in UTF-8")?,
        ])
        .await?;
        fs::remove_file(archive)?;
        Ok(containerd)
    }

    /// Starts kubelet, which makes the machine a node of the cluster.
    pub(crate) async fn start(cluster: &Cluster, containerd: Program) -> Outcome<Self> {
        let folder = folder("node")?;
        show_kernel_settings(&folder)?;
        let machine = Self {
            folder,
            kubeconfig: cluster.kubeconfig(),
            kubelet: Mutex::default(),
            _containerd: containerd,
        };
        fs::write(machine.folder.join("kubelet.json"), machine.kubelet_settings()?)?;
        machine.start_kubelet().await?;
        Ok(machine)
    }

    pub(crate) async fn start_kubelet(&self) -> Outcome {
        let mut command = guarded(part("kubelet")?);
        command.args(["--hostname-override", NAME, "--node-ip", ADDRESS]);
        command
            .arg("--config")
            .arg(self.folder.join("kubelet.json"))
            .arg("--kubeconfig")
            .arg(&self.kubeconfig);
        command
            .arg("--root-dir")
            .arg(self.folder.join("kubelet"))
            .arg("--cert-dir")
            .arg(self.folder.join("kubelet-pki"));
        command.env("PATH", path()?);
        let mut kubelet = Program::start("kubelet", command, &self.folder)?;
        let healthy =
            async || once(local(10248), &Request::get("/healthz")).await?.expect(200).map(drop);
        kubelet.ready(PATIENCE, healthy).await?;
        *self.kubelet.lock().await = Some(kubelet);
        Ok(())
    }

    /// Lets kubelet pull from this registry without TLS.
    pub(crate) fn pull_from(&self, registry: &str) -> Outcome {
        let hosts = registries(&self.folder).join(registry);
        fs::create_dir_all(&hosts)?;
        let text = format!(
            "server = \"http://{registry}\"\n[host.\"http://{registry}\"]\n  \
                capabilities = [\"pull\", \"resolve\"]\n"
        );
        Ok(fs::write(hosts.join("hosts.toml"), text)?)
    }

    /// Kills kubelet by SIGKILL; the containers go on.
    pub(crate) async fn kill_kubelet(&self) {
        drop(self.kubelet.lock().await.take());
    }

    fn kubelet_settings(&self) -> Outcome<String> {
        let folder = |name: &str| -> Outcome<PathBuf> {
            let path = self.folder.join(name);
            fs::create_dir_all(&path)?;
            Ok(path)
        };
        let settings = json!({
            "apiVersion": "kubelet.config.k8s.io/v1beta1", "kind": "KubeletConfiguration",
            "address": ADDRESS, "healthzPort": 10248,
            "authentication": { "anonymous": { "enabled": true }, "webhook": { "enabled": false } },
            "authorization": { "mode": "AlwaysAllow" },
            "podLogsDir": folder("pod-logs")?, "volumePluginDir": folder("volume-plugins")?,
            "containerRuntimeEndpoint": format!("unix://{SOCKET}"), "resolvConf": "",
            "featureGates": { "ImageVolume": true },
            "clusterDNS": [ADDRESS], "clusterDomain": "cluster.local",
            "cgroupDriver": "cgroupfs", "cgroupRoot": format!("/{}", cgroup()?),
            "enforceNodeAllocatable": [],
            "protectKernelDefaults": true, "makeIPTablesUtilChains": false,
            "localStorageCapacityIsolation": false,
            "failSwapOn": false, "evictionHard": {}, "imageMinimumGCAge": "24h",
            "registryPullQPS": 0, "eventRecordQPS": 0, "kubeAPIQPS": 200, "kubeAPIBurst": 400,
        });
        Ok(settings.to_string())
    }
}

fn cgroup() -> Outcome<String> {
    std::env::var(CGROUP).context(CGROUP)
}

/// Makes the cgroup below which kubelet puts its pods. The process that started this level removes
/// it.
fn make_cgroups() -> Outcome {
    let name = cgroup()?;
    if Path::new(CGROUPS).join("cgroup.controllers").exists() {
        return make_unified_cgroup(&name);
    }
    for controller in [
        "cpu", "cpuacct", "cpuset", "memory", "devices", "freezer", "blkio", "pids", "hugetlb",
        "systemd",
    ] {
        let hierarchy = Path::new(CGROUPS).join(controller);
        if !hierarchy.is_dir() {
            continue;
        }
        let own = hierarchy.join(&name);
        fs::create_dir_all(&own).with_context(|| own.display().to_string())?;
        for file in ["cpuset.cpus", "cpuset.mems"] {
            if own.join(file).exists() {
                // empty ones take no process
                fs::write(own.join(file), fs::read(hierarchy.join(file))?)?;
            }
        }
    }
    Ok(())
}

/// Makes the cgroup in version 2, where the parent enables the controllers of its children.
fn make_unified_cgroup(name: &str) -> Outcome {
    let top = Path::new(CGROUPS);
    let offered = fs::read_to_string(top.join("cgroup.controllers"))?;
    let wanted: Vec<String> = ["cpu", "cpuset", "memory", "pids"]
        .iter()
        .map(|controller| format!("+{controller}"))
        .collect();
    for controller in ["cpu", "cpuset", "memory", "pids"] {
        ensure!(
            offered.split_whitespace().any(|offer| offer == controller),
            "{CGROUPS} has no controller `{controller}`, which kubelet needs"
        );
    }
    fs::write(top.join("cgroup.subtree_control"), wanted.join(" ")).context(
        "cgroup.subtree_control: run this outside of a container, or give it a cgroup \
            namespace of its own",
    )?;
    let own = top.join(name);
    fs::create_dir_all(&own)?;
    Ok(fs::write(own.join("cgroup.subtree_control"), wanted.join(" "))?)
}

/// Binds files over kernel settings that kubelet checks, because the real ones belong to the whole
/// machine.
fn show_kernel_settings(folder: &Path) -> Outcome {
    for (setting, value) in
        [("vm/overcommit_memory", "1"), ("kernel/panic", "10"), ("kernel/panic_on_oops", "1")]
    {
        let file = folder.join(setting.replace('/', "-"));
        fs::write(&file, value)?;
        run_tool(
            "mount",
            &["--bind", file.to_str().context("a path in UTF-8")?, &format!("/proc/sys/{setting}")],
        )?;
    }
    Ok(())
}

fn containerd(folder: &Path) -> Outcome<Command> {
    let networks = folder.join("networks");
    fs::create_dir_all(&networks)?;
    let bridge = json!({ "cniVersion": "0.4.0", "name": "pods", "plugins": [{
        "type": "bridge", "bridge": "pods", "isGateway": true, "hairpinMode": true,
        "ipam": {
            "type": "host-local", "dataDir": "/run/addresses", "ranges": [[{ "subnet": PODS }]],
            "routes": [{ "dst": "0.0.0.0/0" }],
        },
    }] });
    fs::write(networks.join("10-pods.conflist"), bridge.to_string())?;
    let config = folder.join("containerd.toml");
    fs::write(&config, settings(folder, &networks)?)?;
    let mut command = guarded(part("containerd")?);
    command.arg("--config").arg(config).env("PATH", path()?);
    Ok(command)
}

fn settings(folder: &Path, networks: &Path) -> Outcome<String> {
    Ok(format!(
        r#"version = 2
root = {root:?}
state = "/run/containerd"
disabled_plugins = [
    "io.containerd.snapshotter.v1.aufs", "io.containerd.snapshotter.v1.btrfs",
    "io.containerd.snapshotter.v1.devmapper", "io.containerd.snapshotter.v1.zfs",
    "io.containerd.internal.v1.opt"
]
[grpc]
  address = "{SOCKET}"
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "{pause}"
  disable_apparmor = true
  restrict_oom_score_adj = true
  stream_server_address = "127.0.0.1"
  [plugins."io.containerd.grpc.v1.cri".registry]
    config_path = {registries:?}
  [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
    runtime_type = "io.containerd.runc.v2"
    [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc.options]
      BinaryName = {runc:?}
      SystemdCgroup = false
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = {plugins:?}
    conf_dir = {networks:?}
"#,
        root = folder.join("containerd"),
        pause = image::PAUSE,
        registries = registries(folder),
        runc = part("runc")?,
        plugins = part("cni-plugins")?,
    ))
}

/// The folder in which containerd looks for the settings of a registry, at each pull.
fn registries(folder: &Path) -> PathBuf {
    folder.join("registries")
}

/// The search path, on which containerd finds its shim, and kubelet finds `mount` and similar
/// programs.
fn path() -> Outcome<String> {
    let shim = part("containerd-shim-runc-v2")?.parent().context("a program in a folder")?;
    Ok(format!("{}:/usr/sbin:/usr/bin:/sbin:/bin", shim.display()))
}

async fn ctr(arguments: &[&str]) -> Outcome {
    let mut command = guarded(part("ctr")?);
    command.args(["--address", SOCKET]).args(arguments);
    ask(command, "").await?.expect(0).map(drop)
}
