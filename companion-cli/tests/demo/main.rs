//! `laststream demo`, run as people run it, on real Envoys.

#![allow(clippy::unwrap_used, clippy::panic, reason = "the whole program is a test")]

mod ends;
mod outcome;
mod support;
