//! `laststream config …`

use std::path::{Path, PathBuf};

use clap::Subcommand;
use laststream_filter::{config, gate};

use crate::commands::{Ended, Exit, Printer};
use crate::input::{LARGEST_TEXT, read};

#[derive(Debug, Subcommand)]
pub(crate) enum Config {
    /// Prints the JSON schema of the module's configuration.
    #[command(after_help = "Example:\n  laststream config schema > laststream.schema.json")]
    Schema,
    /// Prints the HTTP interface of the gate, as OpenAPI 3.1 in YAML.
    #[command(after_help = "Example:\n  laststream config openapi > gate.openapi.yaml")]
    Openapi,
    /// Checks a configuration exactly as the module does.
    #[command(
        after_help = "Examples:\n  laststream config check configuration.json\n  echo '{\"scope\": \
            \"inbound\"}' | laststream config check -"
    )]
    Check {
        /// The file with the configuration as JSON; `-` for standard input.
        file: PathBuf,
    },
}

pub(crate) fn run(command: &Config, printer: &Printer) -> Ended {
    match command {
        Config::Schema => printer.value(&config::schema::schema()),
        Config::Openapi => printer.stdout_verbatim(gate::OPENAPI),
        Config::Check { file } => return check(file, printer),
    }
    Ok(Exit::Fine)
}

fn check(file: &Path, printer: &Printer) -> Ended {
    let text = read(file, LARGEST_TEXT)?;
    match config::parse(&text) {
        Ok(config) => {
            for warning in config.warnings() {
                printer.warning(&warning);
            }
            printer.stdout(&config.summary());
            Ok(Exit::Fine)
        }
        Err(refused) => {
            for problem in &refused.0 {
                printer.error(problem);
            }
            Ok(Exit::Negative)
        }
    }
}
