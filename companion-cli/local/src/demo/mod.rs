//! The experiment of `laststream demo` on real Envoys: a request and a WebSocket in a gateway, its
//! pod deleted, once for each way of stopping it; and the `x-forwarded-proto` that the app sees.
//!
//! Real: the Envoys, every connection, the module, the times. Models of the rest, each in a file of
//! its own: [`app`] answers as httpbin does, [`agent`] behaves at SIGTERM as Istio's pilot-agent
//! does, [`kubelet`] stops a container by Kubernetes' rules. A result has what the client got and
//! the time at which Envoy ended; [`judge`] compares it with the expected result in [`lane`].

mod agent;
mod app;
mod bootstrap;
mod caller;
mod client;
mod clock;
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
mod story;
pub mod times;
pub mod view;

use std::ffi::OsString;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::mpsc::Sender;

use serde::Serialize;

use crate::envoy::Envoy;
pub use judge::LaneResult;
pub use lane::{EndedBy, Lane};
use laststream_base::causes::Context as _;
use laststream_base::progress::Progress;
pub use record::{Actor, Event, LaneMark, News};
pub use scheme::{Row, Scheme};
use times::Times;

#[derive(Debug, Clone)]
pub struct Settings {
    pub envoy: Envoy,
    pub module: &'static [u8],
    /// The command that runs an Envoy and ends it with this process; empty where there is none.
    pub guard: Vec<OsString>,
    pub times: Times,
    /// A flag that the caller sets to stop the demo.
    pub stop: Arc<AtomicBool>,
}

#[derive(Debug, Clone, Serialize)]
pub struct Outcome {
    pub envoy: String,
    pub times: Times,
    /// The experiment, once for each way of stopping a pod.
    pub lanes: Vec<LaneResult>,
    /// The `x-forwarded-proto` that the app saw.
    pub forwarded_proto: Scheme,
    /// Differences from the expected results; empty if there are none.
    pub surprises: Vec<String>,
}

/// Runs the demo. Returns when the last pod has gone.
///
/// # Errors
/// The demo could not be set up, or was interrupted. An unexpected result of a lane is not one:
/// see [`Outcome::surprises`].
pub fn run(
    settings: &Settings,
    progress: &dyn Progress,
    news: &Sender<News>,
) -> Result<Outcome, String> {
    let folder = tempfile::Builder::new()
        .prefix("laststream-demo-")
        .tempdir()
        .context("cannot make a folder for the demo's files")?;
    let starter = proxy::Starter::new(settings, folder.path().to_path_buf())?;
    progress.started(&format!("starting {ENVOYS} Envoys {}", settings.envoy.version));
    let stage = stage::Stage::prepare(&starter, settings)?;
    let lanes = stage.play(settings, news)?;
    let forwarded_proto = stage.scheme().clone();
    if lanes.len() < Lane::ALL.len() {
        return Err("a lane of the demo broke off: this is an error of laststream's".to_owned());
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

/// The number of Envoys: a gateway for each lane and one more for the second pod, the caller, and
/// the gateway for `x-forwarded-proto`.
const ENVOYS: usize = Lane::ALL.len() + 3;
