//! A real Envoy: started, asked through its admin interface, killed. It ends when this value does, and when this process does.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, ExitStatus, Stdio};
use std::sync::Mutex;
use std::thread::sleep;
use std::time::{Duration, Instant};

use serde_json::Value;

use super::clock::Clock;
use super::error::Error;
use super::http::{self, Reply};
use super::{Folder, Settings};
use crate::env_vars;

/// Longest wait for an Envoy to start, on however busy a machine.
const START: Duration = Duration::from_secs(60);
/// Longest wait for its admin interface.
const ANSWER: Duration = Duration::from_secs(10);
/// The path of a socket has 103 bytes at most on macOS, and 107 on Linux.
const LONGEST_FOLDER: usize = 80;
/// As Istio starts it; one worker each, for there are many of them on one machine.
const ARGUMENTS: [&str; 9] = [
    "--concurrency",
    "1",
    "--drain-time-s",
    "45",
    "--drain-strategy",
    "immediate",
    "--log-level",
    "warning",
    "--disable-hot-restart", // no base id and no shared memory, so that any number of demos get on with each other
];

/// Starts Envoys, each in a folder of its own.
pub(super) struct Starter {
    guard: Vec<OsString>,
    binary: PathBuf,
    folder: Folder,
    module: PathBuf,
}

impl Starter {
    pub(super) fn new(settings: &Settings, folder: Folder) -> Result<Self, Error> {
        if folder.as_os_str().len() > LONGEST_FOLDER {
            return Err(Error::TooLong { folder: folder.display().to_string() });
        }
        let module = folder.join("laststream.wasm");
        write(&module, settings.module)?;
        Ok(Self { guard: settings.guard.clone(), binary: settings.envoy.binary.clone(), folder, module })
    }

    /// The module, as a file that Envoys read.
    pub(super) fn module(&self) -> &Path {
        &self.module
    }

    /// Where an Envoy of this name has its admin interface. A socket in the file system: no port that another may have.
    pub(super) fn admin(&self, name: &str) -> PathBuf {
        self.folder.join(format!("{name}.admin"))
    }

    /// Starts; [`Proxy::ready`] waits. The thread that calls this must outlive the Envoy, for the kernel sends the signal that ends it when
    /// the parent's thread ends.
    pub(super) fn start(&self, name: &str, bootstrap: &Value) -> Result<Proxy, Error> {
        let file = self.folder.join(format!("{name}.json"));
        write(&file, bootstrap.to_string().as_bytes())?;
        let log = self.folder.join(format!("{name}.log"));
        let failed = |error: io::Error| Error::Start { name: name.to_owned(), why: error.to_string() };
        let output = File::create(&log).map_err(failed)?;
        let mut words = self.guard.iter().map(OsString::as_os_str).chain([self.binary.as_os_str()]);
        let mut command = env_vars::command(words.next().unwrap_or_default());
        command.args(words).args(ARGUMENTS).arg("-c").arg(&file);
        command.stdin(Stdio::null()).stdout(output.try_clone().map_err(failed)?).stderr(output);
        command.process_group(0); // Ctrl-C is for the demo, which ends them itself
        let child = command.spawn().map_err(failed)?;
        Ok(Proxy { name: name.to_owned(), admin: self.admin(name), log, child: Mutex::new(child) })
    }
}

fn write(file: &Path, bytes: &[u8]) -> Result<(), Error> {
    fs::write(file, bytes).map_err(|error| Error::File { file: file.display().to_string(), error })
}

pub(super) struct Proxy {
    name: String,
    admin: PathBuf,
    log: PathBuf,
    child: Mutex<Child>,
}

impl Proxy {
    /// Waits until it serves.
    pub(super) fn ready(&self, stop: &Clock) -> Result<(), Error> {
        let began = Instant::now();
        loop {
            if self.admin("GET", "/ready").is_ok_and(|reply| reply.status == 200) {
                return Ok(());
            }
            if stop.is_over() {
                return Err(Error::Interrupted);
            }
            if let Some(status) = self.exit_status() {
                return Err(self.failed(&format!("it ended with {status}")));
            }
            if began.elapsed() > START {
                return Err(self.failed(&format!("it is not ready after {} s", START.as_secs())));
            }
            sleep(Duration::from_millis(20));
        }
    }

    /// Where a listener listens.
    pub(super) fn port(&self, listener: &str) -> Result<u16, Error> {
        let reply = self.admin("GET", "/listeners?format=json").map_err(|error| self.failed(&error.to_string()))?;
        let json: Value = serde_json::from_slice(&reply.body).map_err(|error| self.failed(&error.to_string()))?;
        let all = json["listener_statuses"].as_array().into_iter().flatten();
        let ours = all.filter(|status| status["name"] == listener);
        let ports = ours.filter_map(|status| status.pointer("/local_address/socket_address/port_value")?.as_u64());
        let port = ports.filter_map(|port| u16::try_from(port).ok()).next();
        port.ok_or_else(|| self.failed(&format!("it has no listener `{listener}`")))
    }

    pub(super) fn admin(&self, method: &str, path: &str) -> io::Result<Reply> {
        let mut stream = UnixStream::connect(&self.admin)?;
        stream.set_read_timeout(Some(ANSWER))?;
        stream.set_write_timeout(Some(ANSWER))?;
        http::exchange(&mut stream, method, path, &[("connection", "close")])
    }

    pub(super) fn has_ended(&self) -> bool {
        self.exit_status().is_some()
    }

    /// How it ended, if it has.
    pub(super) fn exit_status(&self) -> Option<ExitStatus> {
        self.child.lock().ok().and_then(|mut child| child.try_wait().ok().flatten())
    }

    /// SIGKILL, and not gone before this returns. Nothing for one that has ended.
    pub(super) fn kill(&self) {
        if let Ok(mut child) = self.child.lock() {
            // Both fail only for a process that has ended.
            let _ = child.kill();
            let _ = child.wait();
        }
    }

    fn failed(&self, why: &str) -> Error {
        let log = fs::read(&self.log).unwrap_or_default();
        let log = String::from_utf8_lossy(&log);
        let lines: Vec<&str> = log.lines().filter(|line| line.contains("[critical]") || line.contains("[error]")).collect();
        let end = lines.iter().rev().take(3).rev().fold(String::new(), |text, line| text + "\n  " + line);
        Error::Start { name: self.name.clone(), why: format!("{why}{end}") }
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.kill();
    }
}
