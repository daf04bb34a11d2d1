//! Starts, asks and kills a real Envoy. Envoy ends when its [`Proxy`] is dropped, and with this
//! process.

use std::ffi::OsString;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::ExitStatus;
use std::sync::Mutex;
use std::time::Instant;

use serde_json::Value;

use super::Settings;
use super::clock::Clock;
use crate::admin::Admin;
use crate::log::Log;
use crate::process::Process;
use crate::waiting::{self, NotReady, START};
use laststream_base::causes::Context as _;

/// The length limit of the folder's path. The path of a socket has 103 bytes at most on macOS, and
/// 107 on Linux.
const LONGEST_FOLDER: usize = 80;
/// The error of a demo that the user has stopped.
pub(super) const INTERRUPTED: &str = "interrupted; every Envoy has been ended";
/// Envoy's arguments as in Istio, but with one worker each, because many Envoys run on one machine.
const ARGUMENTS: [&str; 9] = [
    "--concurrency",
    "1",
    "--drain-time-s",
    "45",
    "--drain-strategy",
    "immediate",
    "--log-level",
    "warning",
    // no base id and no shared memory, so that several demos can run at the same time
    "--disable-hot-restart",
];

pub(super) struct Starter {
    guard: Vec<OsString>,
    binary: PathBuf,
    folder: PathBuf,
    module: PathBuf,
}

impl Starter {
    pub(super) fn new(settings: &Settings, folder: PathBuf) -> Result<Self, String> {
        if folder.as_os_str().len() > LONGEST_FOLDER {
            return Err(format!(
                "the folder for temporary files, `{}`, has too long a path for sockets: set TMPDIR \
                    to a shorter one",
                folder.display()
            ));
        }
        let module = folder.join("laststream.wasm");
        write(&module, settings.module)?;
        Ok(Self {
            guard: settings.guard.clone(),
            binary: settings.envoy.binary.clone(),
            folder,
            module,
        })
    }

    /// The module's file, which the Envoys read.
    pub(super) fn module(&self) -> &Path {
        &self.module
    }

    /// The path of an Envoy's admin interface. It is a socket in the file system, because another
    /// program may have taken a port.
    pub(super) fn admin(&self, name: &str) -> PathBuf {
        self.folder.join(format!("{name}.admin"))
    }

    /// Starts an Envoy; [`Proxy::ready`] waits until it serves.
    pub(super) fn start(&self, name: &str, bootstrap: &Value) -> Result<Proxy, String> {
        let file = self.folder.join(format!("{name}.json"));
        write(&file, bootstrap.to_string().as_bytes())?;
        let log = self.folder.join(format!("{name}.log"));
        let failed = format!("the Envoy `{name}` did not start");
        let output = File::create(&log).context(&failed)?;
        let mut arguments: Vec<OsString> = ARGUMENTS.map(OsString::from).into();
        arguments.extend(["-c".into(), file.into()]);
        let process =
            Process::start(&self.guard, &self.binary, &arguments, None, &output).context(failed)?;
        let admin = Admin::on_socket(self.admin(name));
        Ok(Proxy { name: name.to_owned(), admin, log: Log::new(log), process: Mutex::new(process) })
    }
}

fn write(file: &Path, bytes: &[u8]) -> Result<(), String> {
    fs::write(file, bytes).context(format_args!("cannot write `{}`", file.display()))
}

pub(super) struct Proxy {
    name: String,
    admin: Admin,
    log: Log,
    process: Mutex<Process>,
}

impl Proxy {
    pub(super) fn ready(&self, stop: &Clock) -> Result<(), String> {
        let (ended, is_stopped) = (|| self.exit_status(), || stop.is_over());
        let look = || self.admin.is_ready().then_some(());
        let ready = waiting::until(&self.log, Instant::now(), ended, is_stopped, look);
        ready.map_err(|why| match why {
            NotReady::Stopped => INTERRUPTED.to_owned(),
            NotReady::Ended(status) => self.failed(&format!("it ended with {status}")),
            NotReady::Refused(reason) => self.failed(&format!("it refuses this: {reason}")),
            NotReady::Late => self.failed(&format!("it is not ready after {} s", START.as_secs())),
        })
    }

    pub(super) fn port(&self, listener: &str) -> Result<u16, String> {
        let address = self
            .admin
            .listener(listener)
            .ok_or_else(|| self.failed(&format!("it has no listener `{listener}`")))?;
        Ok(address.port())
    }

    pub(super) fn admin(&self) -> &Admin {
        &self.admin
    }

    pub(super) fn has_ended(&self) -> bool {
        self.exit_status().is_some()
    }

    pub(super) fn exit_status(&self) -> Option<ExitStatus> {
        self.process.lock().ok().and_then(|mut process| process.ended())
    }

    /// Sends SIGKILL, and returns when Envoy has ended. Does nothing if Envoy has ended already.
    pub(super) fn kill(&self) {
        if let Ok(mut process) = self.process.lock() {
            process.kill();
        }
    }

    fn failed(&self, why: &str) -> String {
        let complaints: String =
            self.log.complaints(3).iter().map(|line| format!("\n  {line}")).collect();
        format!("the Envoy `{}` did not start: {why}{complaints}", self.name)
    }
}
