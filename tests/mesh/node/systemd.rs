//! N12: an Envoy without a mesh, stopped by a real systemd: as a plain unit, with the units that
//! `render` writes, and with the gate as its parent. systemd runs as the manager of a user, because
//! another program is the first process here.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use kit::command::CommandOutput;
use kit::process::{Process, guarded};
use kit::user::{hook, laststream};
use kit::wire::{free_port, local};
use tempfile::TempDir;
use tokio::time::{Instant, sleep};

use crate::isolation::CGROUP;
use crate::parts::part;
use crate::program::ask;
use crate::seen::row;
use kit::prelude::*;

/// Runs a program where systemd seems to be booted, in a cgroup below that of this run. Of version
/// 1 it sees its own hierarchy alone: in others it removes cgroups that kubelet needs.
const INSIDE: &str = "mount -t tmpfs none /run && mkdir -p /run/systemd/system /run/own || exit
    top=/sys/fs/cgroup
    if [ -d $top/systemd ]; then
        mount --bind $top/systemd /run/own && mount -t tmpfs none $top && mkdir $top/systemd \
            && mount --move /run/own $top/systemd || exit
        top=$top/systemd
    fi
    own=$top/$LASTSTREAM_MESH_CGROUP/systemd
    mkdir -p $own && echo $$ >$own/cgroup.procs && exec \"$@\"";
/// What systemd wants to find of each manager.
const TARGETS: [&str; 3] = ["basic.target", "default.target", "shutdown.target"];
const ENVOY: &str = "envoy.service";
/// How long the request is in flight after the stop.
const IN_FLIGHT: Duration = Duration::from_secs(3);

/// The manager, and its folder with the units.
struct Systemd {
    folder: TempDir,
    _manager: Process,
}

impl Systemd {
    async fn start() -> Outcome<Self> {
        let folder = tempfile::tempdir()?;
        let units = folder.path().join("systemd/user");
        fs::create_dir_all(&units)?;
        for target in TARGETS {
            fs::write(units.join(target), "[Unit]\nDescription=of a test\n")?;
        }
        let mut command = inside(folder.path(), part("systemd")?);
        command.args(["--user", "--log-target=console"]);
        let systemd = Self { _manager: Process::capture(&command)?, folder };
        let answers = async || systemd.run(&["list-units"]).await.map(drop);
        wait_for(PATIENCE, "systemd", answers).await?;
        Ok(systemd)
    }

    fn units(&self) -> PathBuf {
        self.folder.path().join("systemd/user")
    }

    async fn run(&self, arguments: &[&str]) -> Outcome<CommandOutput> {
        let mut command = inside(self.folder.path(), part("systemctl")?);
        command.args(["--user", "--no-pager"]).args(arguments);
        ask(command, "").await?.expect(0)
    }
}

fn inside(folder: &Path, program: &Path) -> Command {
    let mut command = guarded("unshare");
    command.args(["--mount", "sh", "-c", INSIDE, "sh"]).arg(program);
    command.env("XDG_RUNTIME_DIR", folder).env("XDG_CONFIG_HOME", folder).env("HOME", folder);
    command.env(CGROUP, std::env::var(CGROUP).unwrap_or_default());
    command
}

/// An Envoy that units start, and an upstream behind it.
struct Machine {
    systemd: Systemd,
    upstream: Upstream,
    main: SocketAddr,
    admin: SocketAddr,
    gate: SocketAddr,
    /// Envoy's command.
    command: String,
}

impl Machine {
    async fn set() -> Outcome<Self> {
        let (systemd, upstream) = (Systemd::start().await?, Upstream::start().await?);
        let [main, admin, gate] = [free_port()?, free_port()?, free_port()?].map(local);
        let hcm = Hcm::new("main").route(Route::prefix("/").cluster("app").timeout("0s"));
        let bootstrap = Bootstrap::new()
            .with("/admin/address/socket_address/port_value", json!(admin.port()))
            .with("/layered_runtime/layers", json!([{ "name": "admin", "admin_layer": {} }]))
            .cluster(cluster::h1("app", upstream.h1()))
            .listener(Listener::new("main", hcm).with("/address", socket(main)));
        let file = systemd.folder.path().join("envoy.json");
        fs::write(&file, bootstrap.build().to_string())?;
        let envoy = part("envoy")?.display();
        let options = "--use-dynamic-base-id --drain-strategy immediate --log-level warning";
        let command = format!("{envoy} -c {} {options}", file.display());
        Ok(Self { systemd, upstream, main, admin, gate, command })
    }

    fn write(&self, unit: &str, text: &str) -> Outcome {
        let file = self.systemd.units().join(unit);
        fs::create_dir_all(file.parent().context("a folder")?)?;
        Ok(fs::write(file, text)?)
    }

    fn plain(&self) -> Outcome {
        self.write(ENVOY, &format!("[Service]\nExecStart={}\n", self.command))
    }

    /// The rendered units, with the programs of this run, and without a user of its own.
    async fn rendered(&self) -> Outcome {
        self.plain()?;
        let policy = json!({
            "placement": { "envoy": { "admin": self.admin.to_string() } },
            "delivery": "program", "gate": { "port": self.gate.port() },
            "drain": { "longest_request": "20s" },
        });
        let folder = self.systemd.folder.path().join("rendered");
        let mut render = guarded(laststream()?);
        render.args(["render", "all", "--policy", "-", "--output-dir"]).arg(&folder);
        ask(render, policy.to_string()).await?.expect(0)?;
        let hook = hook()?.display().to_string();
        for (file, unit) in [
            ("laststream-gate.service", "laststream-gate.service"),
            ("envoy.service.conf", "envoy.service.d/laststream.conf"),
        ] {
            let text = fs::read_to_string(folder.join(file))?.replace("DynamicUser=yes\n", "");
            self.write(unit, &text.replace("/usr/local/bin/laststream", &hook))?;
        }
        Ok(())
    }

    fn parent(&self) -> Outcome {
        let (hook, admin, gate) = (hook()?.display(), self.admin, self.gate);
        self.write(
            ENVOY,
            &format!(
                "[Service]\nExecStart={hook} gate --envoy {admin} --listen {gate} -- {}\n\
                 KillMode=mixed\nTimeoutStopSec=30s\n",
                self.command
            ),
        )
    }

    /// Stops the unit with a request in flight, beside an idle connection. Returns what the client
    /// got, and how long the stop took after that.
    async fn stop(&self, has_gate: bool) -> Outcome<(Outcome<u16>, Duration)> {
        self.systemd.run(&["daemon-reload"]).await?;
        self.systemd.run(&["start", ENVOY]).await?;
        let serves = async || once(self.main, &Request::get("/echo")).await?.expect(200);
        wait_for(PATIENCE, "Envoy", serves).await?;
        if has_gate {
            let knows = async || {
                let status =
                    once(self.gate, &Request::get("/status").host("localhost")).await?.json()?;
                ensure_eq!(status["count"], "envoy", "{status}");
                Ok(())
            };
            wait_for(PATIENCE, "the gate's count", knows).await?;
        }
        let mut idle = Client::with_request(self.main, &Request::get("/echo")).await?;
        idle.response("GET").await?.expect(200)?;
        let mut client = self.upstream.hold(self.main, "a").await?;
        let answer = async {
            sleep(IN_FLIGHT).await;
            self.upstream.release("a");
            (client.response("GET").await.map(|response| response.status), Instant::now())
        };
        let stop = async { (self.systemd.run(&["stop", ENVOY]).await, Instant::now()) };
        let ((answer, answered), (stop, stopped)) = tokio::join!(answer, stop);
        stop?;
        let show = ["show", ENVOY, "--property=Result", "--value"];
        let result = self.systemd.run(&show).await?.stdout;
        ensure_eq!(result.trim(), "success", "the result of {ENVOY}");
        Ok((answer, stopped.saturating_duration_since(answered)))
    }
}

fn socket(address: SocketAddr) -> Value {
    kit::bootstrap::socket_address(&address.ip().to_string(), address.port())
}

pub(crate) async fn case() -> Outcome {
    let machine = Machine::set().await?;
    machine.plain()?;
    let (answer, _) = machine.stop(false).await?;
    ensure!(answer.is_err(), "nothing was cut: {answer:?}");
    row("N12", "`systemctl stop` of an Envoy with a request of 3 s in flight, nothing", "cut");
    for (what, is_parent) in [("the rendered units", false), ("the gate as its parent", true)] {
        match is_parent {
            false => machine.rendered().await?,
            true => {
                machine.systemd.run(&["stop", "laststream-gate.service"]).await?;
                fs::remove_dir_all(machine.systemd.units().join("envoy.service.d"))?;
                machine.parent()?;
            }
        }
        let (answer, after) = machine.stop(true).await?;
        ensure_eq!(answer?, 200, "{what}");
        let words = format!("200; the unit has ended {:.1} s later", after.as_secs_f64());
        row("N12", format!("the same, {what}"), words);
    }
    Ok(())
}
