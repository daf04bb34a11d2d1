//! The program itself, run as people run it. One binary, because most of these tests wait: while
//! one does, another runs. The linter's tests do not wait; they are in `lint`.

#![allow(clippy::unwrap_used, clippy::panic, reason = "the whole program is a test")]

mod beside;
mod cli;
mod demo;
mod envoy_command;
mod fleet;
mod run;
