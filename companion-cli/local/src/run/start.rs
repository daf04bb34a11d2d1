//! Starts an Envoy from a setup, and waits until it takes requests.

use std::ffi::OsString;
use std::fs::File;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::time::Instant;

use super::folder::{Folder, at};
use super::{Current, Places, Runner, Setup, StopRequests, TAIL};
use crate::admin::Admin;
use crate::log::Log;
use crate::process::Process;
use crate::waiting::{self, NotReady, START};
use laststream_base::causes::Context as _;
use laststream_base::env_vars::LASTSTREAM_SECRET;
use laststream_gate::{GateClient, Secret};
use laststream_render::local::{self, LONG, Ports, Watched};

/// Why a run has no running Envoy.
#[derive(Debug, thiserror::Error)]
pub enum RunnerError {
    #[error("interrupted before Envoy was ready")]
    Stopped,
    #[error("{0}")]
    Failed(String),
}

impl From<String> for RunnerError {
    fn from(why: String) -> Self {
        Self::Failed(why)
    }
}

impl Runner {
    pub fn start(setup: &Setup) -> Result<Self, RunnerError> {
        let ports = Ports { listen: setup.listen, gate: setup.gate, admin: setup.admin };
        are_free(ports)?;
        let folder = Folder::new(setup.folder.as_deref())?;
        let module = folder.add_module(&setup.module)?;
        folder.add_frames()?;
        let bootstrap = write_configuration(setup, ports, &folder, &module)?;
        let log = Log::new(folder.log());
        let file = File::create(log.path()).context(at(log.path()))?;
        let admin_file = folder.path().join("admin-address");
        let arguments = arguments(
            setup,
            &[("-c", bootstrap.into()), ("--admin-address-path", admin_file.clone().into())],
        );
        // Envoy hands it to the gate
        let secret = setup.secret.as_ref().map(|secret| (LASTSTREAM_SECRET, secret.reveal()));
        let process = Process::start(&setup.guard, &setup.envoy, &arguments, secret, &file)
            .context(format_args!("`{}` cannot be started", setup.envoy.display()))?;
        let (stop, began) = (setup.stop.clone(), Instant::now());
        let mut starting = Starting { process, folder, log: log.clone(), stop, began };
        let at = starting.until("Envoy's admin interface", || {
            std::fs::read_to_string(&admin_file).ok()?.trim().parse().ok()
        })?;
        let admin = Admin::at(at);
        starting.folder.publish(Watched::Admin, &local::admin(Some(at)))?;
        let gate = starting
            .until("the gate's listener", || gate(admin.listener("gate")?, setup.secret.clone()))?;
        let main = starting.until("the listener", || admin.listener("main"))?;
        starting.until("Envoy", || admin.is_ready().then_some(()))?;
        starting.until("the gate", || gate.status().ok().map(drop))?;
        let places = Places {
            listener: format!("http://{main}"),
            gate: gate.address().to_string(),
            admin: admin.url().to_owned(),
            upstream: format!("http://{}", setup.app.at),
            log: log.path().to_owned(),
            pid: starting.process.pid(),
        };
        let current = Current { policy: setup.policy.clone(), module };
        let Starting { process, folder, stop, .. } = starting;
        Ok(Self { process, folder, log, admin, gate, places, ports, current, stop })
    }
}

fn write_configuration(
    setup: &Setup,
    ports: Ports,
    folder: &Folder,
    module: &Path,
) -> Result<PathBuf, String> {
    let listeners = local::listeners(&setup.policy, ports, folder.path(), &folder.frames());
    folder.publish(Watched::Listeners, &listeners)?;
    folder.publish(Watched::Stream, &local::stream(&setup.policy, module))?;
    folder.publish(Watched::Gate, &local::gate(&setup.policy, module))?;
    folder.publish(Watched::Admin, &local::admin(None))?;
    folder.write("envoy.yaml", &local::bootstrap(&setup.policy, ports, setup.app, folder.path()))
}

/// Checks that the ports are free. Envoy reports a taken port only in its log, and starts without
/// the listener.
fn are_free(ports: Ports) -> Result<(), String> {
    let address = |port| SocketAddr::from((Ipv4Addr::LOCALHOST, port));
    let all = [
        ("the listener", ports.listen),
        ("the gate", address(ports.gate)),
        ("the admin interface", address(ports.admin)),
    ];
    let bound = all.map(|(what, at)| {
        TcpListener::bind(at).map_err(|error| match error.kind() {
            std::io::ErrorKind::AddrInUse => {
                format!("{what}: {at} is in use already; name another port, or 0 for any free one")
            }
            _ => format!("{what}: nothing can listen on {at}: {error}"),
        })
    });
    // All listeners are kept until here, because no two addresses may be the same.
    bound.into_iter().try_for_each(|listener| listener.map(drop))
}

/// Envoy's arguments: ours, unless the user gave others.
fn arguments(setup: &Setup, ours: &[(&str, OsString)]) -> Vec<OsString> {
    let is_given = |name: &str| {
        let with_value = format!("{name}=");
        setup.arguments.iter().any(|argument| argument == name || argument.starts_with(&with_value))
    };
    let mut all: Vec<OsString> =
        ours.iter().flat_map(|(name, value)| [OsString::from(name), value.clone()]).collect();
    let concurrency = setup.concurrency.map(|number| number.to_string());
    // Connections of a replaced listener are cut after this time; Envoy's default is ten minutes.
    let drain_time =
        (setup.policy.sizing.drain_time().max(LONG).rounded_up().millis() / 1000).to_string();
    let defaults = [
        ("--concurrency", concurrency.as_deref()),
        // During a drain, every response tells the client to leave.
        ("--drain-strategy", Some("immediate")),
        ("--drain-time-s", Some(drain_time.as_str())),
        ("--file-flush-interval-msec", Some("100")),
    ];
    for (name, value) in defaults {
        if let Some(value) = value.filter(|_| !is_given(name)) {
            all.extend([name.into(), value.into()]);
        }
    }
    // Without this option, Envoys with the same base id share memory, and two runs would conflict.
    if !["--base-id", "--use-dynamic-base-id", "--restart-epoch", "--disable-hot-restart"]
        .into_iter()
        .any(is_given)
    {
        all.push("--disable-hot-restart".into());
    }
    all.extend(setup.arguments.iter().map(OsString::from));
    all
}

fn gate(at: SocketAddr, secret: Option<Secret>) -> Option<GateClient> {
    Some(GateClient::new(format!("http://{at}").parse().ok()?, secret))
}

struct Starting {
    // Dropped before the folder, so that Envoy ends first.
    process: Process,
    folder: Folder,
    log: Log,
    stop: StopRequests,
    began: Instant,
}

impl Starting {
    fn until<T>(
        &mut self,
        what: &'static str,
        look: impl Fn() -> Option<T>,
    ) -> Result<T, RunnerError> {
        let (process, stop) = (&mut self.process, &self.stop);
        let (ended, is_stopped) = (|| process.ended(), || stop.is_requested());
        let result = waiting::until(&self.log, self.began, ended, is_stopped, look);
        result.map_err(|why| self.error(what, why))
    }

    fn error(&mut self, what: &'static str, why: NotReady) -> RunnerError {
        let log = at(self.log.path());
        let end = || format!("the end of {log}:\n{}", self.log.tail(TAIL));
        RunnerError::Failed(match why {
            NotReady::Stopped => {
                self.folder.release();
                return RunnerError::Stopped;
            }
            NotReady::Ended(status) => format!("Envoy ended at its start ({status}); {}", end()),
            NotReady::Refused(reason) => {
                format!("Envoy refuses this: {reason}\nmore is in {log}")
            }
            NotReady::Late => {
                format!("{what} is not there after {} s; {}", START.as_secs(), end())
            }
        })
    }
}
