//! `laststream render` as people and pipelines use it: the binary itself, real folders, and kubectl as the reader.

#![allow(clippy::unwrap_used, clippy::panic, reason = "the whole program is a test")]

mod folders;
mod help;
mod kubectl;
mod support;
mod usage;
