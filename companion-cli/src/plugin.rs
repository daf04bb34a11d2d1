//! The program as a plugin of kubectl: `kubectl-laststream`, and `kubectl_complete-laststream` for
//! its completion.

use std::ffi::OsString;
use std::path::Path;

use clap::Command;

/// The name under which the program was called.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CalledAs {
    Itself,
    /// `kubectl laststream`.
    Plugin,
    /// The program that kubectl runs to complete a plugin's arguments.
    Completer,
}

impl CalledAs {
    /// Decides by the program's name, which is the first argument of the process.
    pub(crate) fn of(program: Option<&OsString>) -> Self {
        let name = program.and_then(|program| Path::new(program).file_stem());
        match name.and_then(|name| name.to_str()) {
            Some("kubectl-laststream") => Self::Plugin,
            Some("kubectl_complete-laststream") => Self::Completer,
            _ => Self::Itself,
        }
    }

    /// The command with the name that the user typed.
    pub(crate) fn name(self, command: Command) -> Command {
        if self == Self::Plugin { command.bin_name("kubectl laststream") } else { command }
    }

    /// Rewrites the examples of a help text as the user types them.
    pub(crate) fn help(self, text: String) -> String {
        let typed = |text: String| text.replace("\n  laststream ", "\n  kubectl laststream ");
        if self == Self::Plugin { typed(text) } else { text }
    }
}
