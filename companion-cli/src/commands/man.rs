//! `laststream man`

use std::io;
use std::path::{Path, PathBuf};

use clap::{Args, Command};
use clap_mangen::Man as Page;
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
    let mut program = program.disable_help_subcommand(true);
    program.build();
    std::fs::create_dir_all(&man.folder)
        .and_then(|()| write(program, &man.folder))
        .context(format_args!("cannot write into `{}`", man.folder.display()))?;
    Ok(Exit::Fine)
}

/// What `clap_mangen` writes, and what is better. Lines of examples stay whole, and no word is
/// hyphenated, so that commands can be copied.
const CHANGES: [(&str, &str); 6] = [
    (".SH NAME\n", ".nh\n.ad l\n.SH NAME\n"),
    (".SH EXTRA\nExample:\n", ".SH EXAMPLES\n.nf\n"),
    (".SH EXTRA\nExamples:\n", ".SH EXAMPLES\n.nf\n"),
    ("\nExit codes: ", "\n.SH \"EXIT STATUS\"\n"),
    ("\nExit codes, ", "\n.SH \"EXIT STATUS\"\nExit codes, "),
    (".SH EXTRA\n.SH", ".SH"),
];

fn write(mut command: Command, folder: &Path) -> io::Result<()> {
    for shown in command.get_subcommands().filter(|command| !command.is_hide_set()) {
        write(shown.clone(), folder)?;
    }
    let usage = command.render_usage().to_string();
    let page = Page::new(command.override_usage(usage.replacen("Usage: ", "", 1)));
    let mut text = Vec::new();
    page.render(&mut text)?;
    let text = String::from_utf8_lossy(&text).into_owned();
    let text = CHANGES.iter().fold(text, |text, (old, new)| text.replace(old, new));
    std::fs::write(folder.join(page.get_filename()), text)
}
