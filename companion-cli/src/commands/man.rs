//! `laststream man`

use std::path::PathBuf;

use clap::{Args, Command};
use laststream_base::causes::Context as _;

use crate::commands::{Ended, Exit};

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

pub(crate) fn run(man: &Man, program: Command) -> Ended {
    let result = std::fs::create_dir_all(&man.folder)
        .and_then(|()| clap_mangen::generate_to(program, &man.folder));
    result.context(format_args!("cannot write into `{}`", man.folder.display()))?;
    Ok(Exit::Fine)
}
