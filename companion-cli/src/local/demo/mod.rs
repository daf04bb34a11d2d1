//! The experiment of `laststream demo` on real Envoys: a request in flight, its pod deleted, once
//! for each way of stopping a pod; and what the app sees as `x-forwarded-proto`.
//!
//! Real: the Envoys, every connection, the module, the times. Models of the rest, each in a file of
//! its own: [`app`] answers as httpbin does, [`agent`] does at SIGTERM what Istio's pilot-agent
//! does, [`kubelet`] stops containers by Kubernetes' rules. Outcomes are what the client got and
//! when processes ended; [`judge`] compares them with what is expected, and only there is it
//! written down.

mod agent;
mod app;
mod bootstrap;
mod clock;
mod container;
mod error;
mod gateway;
mod hook;
mod judge;
mod kubelet;
mod lane;
mod pod;
mod proxy;
mod record;
pub mod report;
mod scheme;
mod stage;
pub mod times;
pub mod view;

use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use serde::Serialize;

use crate::local::envoy::Envoy;
use crate::progress::Progress;
pub use error::DemoError;
pub use judge::LaneResult;
pub use lane::{EndedBy, Lane};
pub use record::{Actor, Event, LaneMark, Span, Watcher};
pub use scheme::{Row, Scheme};
use times::Times;

/// What a demo needs.
#[derive(Debug, Clone)]
pub struct Settings {
    /// The Envoy that plays all parts.
    pub envoy: Envoy,
    /// The module.
    pub module: &'static [u8],
    /// What goes before an Envoy's command, so that it ends when this process does; nothing where
    /// that cannot be had.
    pub guard: Vec<OsString>,
    /// How long everything takes.
    pub times: Times,
    /// Set from outside: stop now.
    pub stop: Arc<AtomicBool>,
}

/// The result of a demo.
#[derive(Debug, Clone, Serialize)]
pub struct Outcome {
    /// The version of Envoy.
    pub envoy: String,
    /// How long everything took.
    pub times: Times,
    /// The experiment, once for each way of stopping a pod.
    pub lanes: Vec<LaneResult>,
    /// What the app saw as `x-forwarded-proto`.
    pub forwarded_proto: Scheme,
    /// What came out differently from what is expected; empty if all is well.
    pub surprises: Vec<String>,
}

/// Runs everything. Returns when the last pod has gone.
///
/// # Errors
/// Something could not be set up, or it was interrupted. A lane that comes out differently is no
/// error: see [`Outcome::surprises`].
pub fn run(
    settings: &Settings,
    progress: &dyn Progress,
    watcher: &dyn Watcher,
) -> Result<Outcome, DemoError> {
    let folder = tempfile::Builder::new()
        .prefix("laststream-demo-")
        .tempdir()
        .map_err(|error| DemoError::Folder { error })?;
    let starter = proxy::Starter::new(settings, folder.path().to_path_buf())?;
    progress.started(&format!("starting {ENVOYS} Envoys {}", settings.envoy.version));
    let stage = stage::Stage::prepare(&starter, settings)?;
    let lanes = stage.play(settings, watcher)?;
    let forwarded_proto = stage.scheme().clone();
    if lanes.len() < Lane::ALL.len() {
        return Err(DemoError::Broken);
    }
    let mut surprises: Vec<String> =
        lanes.iter().flat_map(|lane| lane.surprises.iter().cloned()).collect();
    surprises.extend(forwarded_proto.surprises());
    Ok(Outcome {
        envoy: settings.envoy.version.to_string(),
        times: settings.times,
        lanes,
        forwarded_proto,
        surprises,
    })
}

/// A sidecar for each lane and one more for the second pod, the gateway, and the gateway of the
/// second half.
const ENVOYS: usize = Lane::ALL.len() + 3;

/// The folder that one Envoy works in.
type Folder = PathBuf;
