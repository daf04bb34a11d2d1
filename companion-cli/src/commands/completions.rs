//! `laststream completions`

use clap::{Args, Command};
use clap_complete::Shell;

use crate::commands::exit::Exit;
use crate::commands::printer::Printer;

/// Prints a completion script for a shell.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  eval \"$(laststream completions bash)\"\n  laststream completions \
        zsh > _laststream\n  \
    laststream completions fish | source"
)]
pub(crate) struct Completions {
    /// The shell.
    shell: Shell,
}

pub(super) fn run(completions: &Completions, mut program: Command, printer: &Printer) -> Exit {
    let mut script = Vec::new();
    clap_complete::generate(completions.shell, &mut program, env!("CARGO_BIN_NAME"), &mut script);
    printer.stdout_verbatim(&String::from_utf8_lossy(&script));
    Exit::Fine
}
