//! A real Envoy on this machine, with the module in front of an app: started, changed while it
//! runs, drained, and never left behind.
//!
//! [`Runner`] owns the process, its ports and its folder. Finding an Envoy is
//! [`crate::local::envoy`]'s, what Envoy is told is [`crate::render`]'s; signals and words for
//! people are the command's.

mod drain;
pub mod echo;
mod error;
mod folder;
pub mod module;
pub mod policy;
mod start;
mod stop;
mod swap;
pub mod upstream;
pub mod watch;

use std::ffi::OsString;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::ExitStatus;
use std::time::Duration;

use serde::Serialize;

use crate::gate::{Gate, Secret};
use crate::local::admin::Admin;
use crate::local::log::Log;
use crate::local::process::Process;
use crate::policy::Policy;
use crate::render::local::Ports;
pub use drain::{Drained, Step};
pub use error::{ReplaceError, RunnerError};
use folder::Folder;
pub use stop::StopRequests;

/// What is to be run.
#[derive(Debug, Clone)]
pub struct Setup {
    /// The Envoy.
    pub envoy: PathBuf,
    /// The policy, as [`policy::read`] gave it.
    pub policy: Policy,
    /// The gate's secret, which Envoy reads from the environment variable `LASTSTREAM_SECRET`
    /// itself.
    pub secret: Option<Secret>,
    /// The module's bytes.
    pub module: Vec<u8>,
    /// Where the app is.
    pub app: SocketAddr,
    /// Where Envoy listens; port 0 is any free one.
    pub listen: SocketAddr,
    /// The gate's port on the loopback interface; 0 is any free one.
    pub gate: u16,
    /// The admin interface's port on the loopback interface; 0 is any free one.
    pub admin: u16,
    /// Envoy's worker threads.
    pub concurrency: Option<u32>,
    /// More arguments for Envoy.
    pub arguments: Vec<String>,
    /// Where the log and the configuration go; a new folder among the temporary ones if nothing is
    /// said.
    pub folder: Option<PathBuf>,
    /// The beginning of a command whose rest is one that is to end when this process does, however
    /// that ends; may be empty.
    pub guard: Vec<OsString>,
    /// Requests to stop.
    pub stop: StopRequests,
}

/// Where everything is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Places {
    /// Requests to the app go here.
    pub listener: String,
    /// The gate.
    pub gate: String,
    /// Envoy's admin interface.
    pub admin: String,
    /// Where the requests go.
    pub upstream: String,
    /// Envoy's log.
    pub log: PathBuf,
    /// Envoy's process.
    pub pid: u32,
}

/// A running Envoy. It ends with this value.
#[derive(Debug)]
pub struct Runner {
    // Ends before the folder does.
    process: Process,
    folder: Folder,
    log: Log,
    admin: Admin,
    gate: Gate,
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

/// The longest wait for something that takes Envoy a moment; machines may be busy.
const PATIENCE: Duration = Duration::from_secs(60);
/// Between two looks.
const PAUSE: Duration = Duration::from_millis(50);
/// How many lines of the log an error shows.
const TAIL: usize = 20;

impl Runner {
    /// Starts Envoy, and waits until it takes requests.
    ///
    /// # Errors
    /// See [`RunnerError`]. Nothing is left running then.
    pub fn start(setup: &Setup) -> Result<Self, RunnerError> {
        start::start(setup)
    }

    /// Where everything is.
    #[must_use]
    pub fn places(&self) -> &Places {
        &self.places
    }

    /// The folder of the log and the configuration.
    #[must_use]
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// How Envoy ended, if it has.
    pub fn ended(&mut self) -> Option<ExitStatus> {
        self.process.ended()
    }

    /// The last lines of Envoy's log.
    #[must_use]
    pub fn tail(&self) -> String {
        self.log.tail(TAIL)
    }

    /// Hot-reloads the policy, the module, or both, without dropping requests. If Envoy rejects
    /// one, nothing changes.
    ///
    /// # Errors
    /// Why Envoy rejected it.
    pub fn replace(
        &mut self,
        policy: Option<&Policy>,
        module: Option<&[u8]>,
    ) -> Result<(), ReplaceError> {
        self.swap(policy, module)
    }
}
