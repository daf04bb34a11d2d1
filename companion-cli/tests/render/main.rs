//! `laststream render` as people and pipelines use it: the binary itself and real folders.

#![allow(clippy::unwrap_used, clippy::panic, reason = "the whole program is a test")]

mod folders;
mod support;
mod usage;
