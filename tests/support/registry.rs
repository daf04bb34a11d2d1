//! Registries: the real one of the distribution project, and one that fails on demand.

pub(crate) mod faulty;
pub(crate) mod real;
pub(crate) mod server;
pub(crate) mod tokens;

use laststream::digest::Digest;

/// As registries write it.
pub(crate) fn sha256(bytes: &[u8]) -> String {
    Digest::of(bytes).to_string()
}
