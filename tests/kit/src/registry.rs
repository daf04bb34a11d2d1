//! Registries: the real one of the distribution project, and one that fails on demand.

pub mod faulty;
pub mod real;
pub mod tokens;

use crate::hex;

/// The digest of these bytes, as registries write it.
pub fn sha256(bytes: &[u8]) -> String {
    format!("sha256:{}", hex(ring::digest::digest(&ring::digest::SHA256, bytes).as_ref()))
}
