//! `laststream man`

use std::path::PathBuf;

use clap::{Args, Command};

use crate::commands::exit::Exit;
use crate::commands::printer::Printer;

/// Writes a manual page for each command into a folder.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  laststream man ~/.local/share/man/man1\n  man laststream-inspect"
)]
pub(crate) struct Man {
    /// The folder. It is created if it does not exist.
    #[arg(value_name = "DIR")]
    folder: PathBuf,
}

pub(super) fn run(man: &Man, program: Command, printer: &Printer) -> Result<Exit, Exit> {
    let written = std::fs::create_dir_all(&man.folder)
        .and_then(|()| clap_mangen::generate_to(program, &man.folder));
    written.map(|()| Exit::Fine).map_err(|error| {
        printer.failed(&format!("cannot write into `{}`: {error}", man.folder.display()))
    })
}
