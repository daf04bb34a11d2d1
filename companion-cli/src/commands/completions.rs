//! `laststream completions`

use clap::Args;
use clap_complete::Shell;
use clap_complete::env::Shells;
use laststream_base::causes::Context as _;
use laststream_base::env_vars::LASTSTREAM_COMPLETE;

use crate::commands::{Ended, Exit, Printer};

/// Prints a completion script for a shell. It completes commands, options and files, the contexts
/// of the kubeconfig, and, if the API server answers within a second, namespaces and pods.
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

/// A file in a folder of zsh is a function, which zsh calls for the first completion.
const FIRST_CALL: &str = "\
[ \"$funcstack[1]\" = \"_laststream\" ] && _clap_dynamic_completer_laststream \"$@\"\n";

pub(crate) fn run(completions: &Completions, printer: &Printer) -> Ended {
    let name = env!("CARGO_BIN_NAME");
    let shells = Shells::builtins();
    let shell = shells.completer(&completions.shell.to_string()).ok_or("there is no script")?;
    let mut script = Vec::new();
    shell
        .write_registration(LASTSTREAM_COMPLETE, name, name, name, &mut script)
        .context("the script cannot be written")?;
    if completions.shell == Shell::Zsh {
        script.extend(FIRST_CALL.as_bytes());
    }
    printer.stdout_verbatim(&String::from_utf8_lossy(&script));
    Ok(Exit::Fine)
}
