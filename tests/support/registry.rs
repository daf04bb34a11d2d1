//! Registries: the real one of the distribution project, and one that fails on demand.

pub(crate) mod faulty;
pub(crate) mod real;
pub(crate) mod server;
pub(crate) mod tokens;

use ring::digest::{SHA256, digest};

/// As registries write it.
pub(crate) fn sha256(bytes: &[u8]) -> String {
    let hex: String = digest(&SHA256, bytes).as_ref().iter().map(|byte| format!("{byte:02x}")).collect();
    format!("sha256:{hex}")
}
