//! `laststream-release`: writes the files of a release into a folder. `.ci/run release` compiles
//! what it needs.

use std::io::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::Parser;
use laststream_release::{Inputs, write};

/// Puts the files of a release together from programs that are compiled already.
#[derive(Debug, Parser)]
#[command(version)]
struct Arguments {
    /// Cargo's target folder with the static programs for all platforms.
    #[arg(long, value_name = "DIR")]
    programs: PathBuf,
    /// The bill of materials that cargo-cyclonedx wrote.
    #[arg(long, value_name = "JSON")]
    sbom: PathBuf,
    /// The folder for the files; it must be empty or missing.
    #[arg(value_name = "DIR")]
    folder: PathBuf,
}

fn main() -> ExitCode {
    match run(&Arguments::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            writeln!(std::io::stderr(), "error: {error}").ok(); // there is no other place to say it
            ExitCode::FAILURE
        }
    }
}

fn run(arguments: &Arguments) -> Result<(), String> {
    let inputs = Inputs::read(&arguments.programs, &arguments.sbom)?;
    write(&inputs, &arguments.folder)
}
