//! `laststream install`

use std::path::PathBuf;

use clap::Args;
use laststream_gate::install;

use crate::commands::{Ended, Exit, Printer};

/// Copies this program into a folder and prints the path of the copy. For an init container with a
/// volume that the other containers mount.
#[derive(Debug, Args)]
#[command(
    after_help = "Example:\n  laststream install /tools\n\nExit codes: 0 done, 2 there is no copy, \
        64 wrong arguments."
)]
pub(crate) struct Install {
    /// The folder to copy to.
    #[arg(value_name = "DIR")]
    folder: PathBuf,
}

pub(crate) fn run(command: &Install, printer: &Printer) -> Ended {
    let installed = install::install(&command.folder)?;
    if installed.needs_libraries {
        printer.warning(
            &"this build of laststream needs the C library of this image; a static one runs in \
            every image",
        );
    }
    printer.stdout(&installed.path.display().to_string());
    Ok(Exit::Fine)
}
