//! A real Envoy on this machine, with the module in front of an app: started, changed while it
//! runs, drained, and never left behind.
//!
//! [`Runner`] owns the process, its ports and its folder. [`crate::envoy`] finds an Envoy,
//! [`laststream_render`] makes its configuration, and the command handles signals and messages.

mod drain;
pub mod echo;
mod folder;
pub mod module;
pub mod policy;
mod start;
mod stop;
mod swap;
pub mod upstream;
pub mod watch;
mod watches;

use std::ffi::OsString;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::ExitStatus;
use std::time::Duration;

use serde::Serialize;

use crate::admin::Admin;
use crate::log::Log;
use crate::process::Process;
pub use drain::{Drained, Step};
use folder::Folder;
use laststream_gate::{GateClient, Secret};
use laststream_policy::Policy;
use laststream_render::local::{App, Ports};
pub use start::RunnerError;
pub use stop::StopRequests;
pub use watches::Watches;

#[derive(Debug, Clone)]
pub struct Setup {
    pub envoy: PathBuf,
    /// The policy, as [`policy::read`] gave it.
    pub policy: Policy,
    /// The gate's secret, which Envoy reads from the environment variable `LASTSTREAM_SECRET`
    /// itself.
    pub secret: Option<Secret>,
    pub module: Vec<u8>,
    pub app: App,
    /// The address that Envoy listens on; port 0 is any free one.
    pub listen: SocketAddr,
    /// The gate's port on the loopback interface; 0 is any free one.
    pub gate: u16,
    /// The admin interface's port on the loopback interface; 0 is any free one.
    pub admin: u16,
    pub concurrency: Option<u32>,
    pub arguments: Vec<String>,
    /// The folder for the log and the configuration; by default a new one among the temporary
    /// folders.
    pub folder: Option<PathBuf>,
    /// A command that runs Envoy and ends it when this process ends, for whatever reason; may be
    /// empty.
    pub guard: Vec<OsString>,
    pub stop: StopRequests,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Places {
    pub listener: String,
    pub gate: String,
    pub admin: String,
    /// The app's address, which requests are forwarded to.
    pub upstream: String,
    pub log: PathBuf,
    pub pid: u32,
}

/// A running Envoy. It ends when this value is dropped.
#[derive(Debug)]
pub struct Runner {
    // Dropped before the folder, so that Envoy ends first.
    process: Process,
    folder: Folder,
    log: Log,
    admin: Admin,
    gate: GateClient,
    places: Places,
    ports: Ports,
    current: Current,
    stop: StopRequests,
}

/// The configuration that Envoy accepted last.
#[derive(Debug, Clone)]
struct Current {
    policy: Policy,
    module: PathBuf,
}

/// The longest wait for an update of Envoy. It takes a moment, but machines may be busy.
const PATIENCE: Duration = Duration::from_secs(60);
const PAUSE: Duration = Duration::from_millis(50);
/// The number of lines of the log that an error shows.
const TAIL: usize = 20;

impl Runner {
    pub fn places(&self) -> &Places {
        &self.places
    }

    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    pub fn ended(&mut self) -> Option<ExitStatus> {
        self.process.ended()
    }

    /// Lets the end remove a temporary folder with the log and the configuration. False: the folder
    /// is the user's, and stays.
    pub fn release_folder(&mut self) -> bool {
        self.folder.release()
    }

    pub fn tail(&self) -> String {
        self.log.tail(TAIL)
    }
}
