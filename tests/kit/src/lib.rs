//! The test kit of this repository: real processes, clients for every protocol, an upstream that
//! misbehaves on demand, fake servers, one way to run a command, one loop that polls, and the
//! tables of `x-forwarded-proto`.
//!
//! Nothing of the product lives here, and no test: the kit does not depend on `laststream`.
//!
//! Dropping ends everything: Envoy, the upstream, the connections. A failing trial prints the end
//! of its Envoys' logs by itself.

pub mod admin;
pub mod admin_cluster;
pub mod admin_proxy;
pub mod bootstrap;
pub mod certificates;
pub mod checkout;
pub mod clock;
pub mod command;
pub mod envoy;
pub mod fake_server;
pub mod forwarded_proto;
pub mod h1;
pub mod h2;
pub mod h3;
pub mod load;
pub mod openapi;
pub mod outcome;
mod port_forward;
pub mod prelude;
pub mod process;
pub mod programs;
pub mod registry;
mod server;
pub mod trial;
pub mod tunnel;
pub mod upstream;
pub mod user;
pub mod wait;
pub mod websocket;
pub mod wire;
pub mod xds;

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

pub use anyhow::{Context, Error};

pub use crate::outcome::{Outcome, completion};

/// The root of the repository.
pub fn workspace() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).unwrap_or(Path::new(".")).to_owned()
}

/// Writes a line to standard error, in one piece, because other processes write there, too. A
/// closed standard error is not a failure.
pub fn say(what: &str) {
    let _ = std::io::stderr().write_all(format!("{what}\n").as_bytes());
}

/// Locks a mutex, also after a panic of its last owner, because that panic fails the owner's test.
pub fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
