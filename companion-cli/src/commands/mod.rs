//! The commands, a file each: they do their work, hand their results to the printer, and say how it ended.

pub(crate) mod build;
pub(crate) mod completions;
pub(crate) mod config;
pub(crate) mod envoy;
#[cfg(test)]
mod examples;
pub(crate) mod guard;
mod input;
pub(crate) mod inspect;
pub(crate) mod lint;
pub(crate) mod man;
pub(crate) mod push;
mod registry_args;
pub(crate) mod render;
pub(crate) mod run;
pub(crate) mod version;

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
        Command::Build(command) => build::run(&command, printer),
        Command::Completions(command) => completions::run(&command, printer),
        Command::Config(command) => config::run(&command, printer),
        Command::Envoy(command) => envoy::run(&command, printer),
        Command::Guard(command) => guard::run(&command, printer),
        Command::Inspect(command) => inspect::run(&command, printer),
        Command::Lint(command) => lint::run(&command, printer),
        Command::Man(command) => man::run(&command, printer),
        Command::Push(command) => push::run(*command, printer),
        Command::Render(command) => render::run(&command, printer),
        Command::Run(command) => run::run(&command, printer),
        Command::Version(command) => version::run(&command, printer),
    }
}
