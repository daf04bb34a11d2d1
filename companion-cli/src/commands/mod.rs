//! The commands, a file each: they do their work, hand their results to the printer, and say how it ended.

pub(crate) mod config;
pub(crate) mod envoy;
mod input;
pub(crate) mod push;
mod registry_args;

use crate::cli::{Arguments, Command};
use crate::printer::Printer;

/// How a command ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Exit {
    Fine = 0,
    /// What was looked at is not as it should be.
    Found = 1,
    /// The work could not be done.
    Failed = 2,
    /// The arguments make no sense; sysexits' EX_USAGE.
    Usage = 64,
}

pub(crate) fn run(arguments: Arguments, printer: &Printer) -> Exit {
    match arguments.command {
        Command::Config(command) => config::run(&command, printer),
        Command::Envoy(command) => envoy::run(&command, printer),
        Command::Push(command) => push::run(*command, printer),
    }
}
