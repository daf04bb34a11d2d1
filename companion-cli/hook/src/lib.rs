//! The commands that stop hooks and Jobs run, and how commands print and end. The program
//! `laststream` has the same commands, beside many more.

#![allow(missing_docs, reason = "a comment says why: the names of an internal crate say what")]

pub mod exec;
mod exit;
pub mod gate;
pub mod gate_args;
pub mod install;
mod output;
mod printer;
pub mod wait;

pub use exit::{Ended, Exit, Failure, misused, printed};
pub use output::Output;
pub use printer::Printer;

use clap::error::ErrorKind;
use laststream_base::{children, visible};

/// What a command asks of the program around it.
#[derive(Debug, Clone, Copy)]
pub struct Conduct {
    /// Whether its exit code is a verdict, instead of saying that a document was printed.
    pub is_verdict: bool,
    /// Whether signals end it. They have no default action in process 1 of a container, so every
    /// command needs handlers: these, or its own.
    pub ends_at_signals: bool,
}

/// Runs a command, prints the error that ends it, and ends the programs that it started.
pub fn run(conduct: Conduct, command: impl FnOnce(&Printer) -> Ended) -> Exit {
    let printer = &if conduct.is_verdict { Printer::of_verdicts() } else { Printer::default() };
    if conduct.ends_at_signals
        && let Err(error) = children::end_at_signals()
    {
        return printer.failure(format!("signals cannot be handled: {error}").into());
    }
    let exit = command(printer).unwrap_or_else(|error| printer.failure(error));
    children::end();
    exit
}

/// Prints what clap found. It reports `--help` and `--version` as errors, but they are output.
pub fn print_usage(kind: ErrorKind, text: &str, printer: &Printer) -> Exit {
    match kind {
        ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => {
            printer.coloured(text);
            Exit::Fine
        }
        _ => {
            printer.stderr_verbatim(visible::coloured(text).trim_end());
            Exit::Usage
        }
    }
}
