//! The cost of the filter on a real Envoy, compared with no filter and with Lua: `cargo bench`,
//! explained by `cargo bench -- --help` and docs/cost/README.md. It measures times without judging
//! them; only `--check` judges, and only counts of instructions.

mod arguments;
mod baseline;
mod bed;
mod callgrind;
mod flood;
mod instructions;
mod latency;
mod machine;
mod memory;
mod numbers;
mod results;
mod scripts;
mod site;
mod sockets;
mod targets;
mod variants;

use std::io::Write as _;
use std::process::ExitCode;
use std::time::Duration;

use clap::Parser as _;

use crate::arguments::{Arguments, Part};
use crate::machine::Machine;
use crate::results::Results;
use crate::site::Site;
use kit::trial::block_on;
use kit::{Outcome, say};

/// The time limit of each part, even on a busy machine.
const LIMIT: Duration = Duration::from_secs(1800);

fn main() -> ExitCode {
    match run(&Arguments::parse()) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(failure) => {
            say(&format!("error: {failure:#}"));
            ExitCode::from(2)
        }
    }
}

/// Returns whether `--check` found no variant too expensive; without `--check` always true.
fn run(arguments: &Arguments) -> Outcome<bool> {
    let site = Site::find(arguments.envoy)?;
    if arguments.check {
        let variants = variants::chosen(&baseline::VARIANTS, site.version)?;
        let rows = block_on(LIMIT, instructions::measure(&site, &variants))?;
        let (verdict, is_good) = baseline::check(&site.version.to_string(), &rows)?;
        print(&verdict)?;
        return Ok(is_good);
    }
    let results = measure(&site, arguments)?;
    print(&results.in_words())?;
    if let Some(folder) = arguments.output() {
        results.write(&folder)?;
        say(&format!("written to {}", folder.display()));
    }
    Ok(true)
}

fn measure(site: &Site, arguments: &Arguments) -> Outcome<Results> {
    let variants = variants::chosen(&arguments.variants, site.version)?;
    let mut results = Results { machine: Machine::describe(site)?, ..Results::default() };
    if arguments.wants(Part::Instructions) {
        results.instructions = block_on(LIMIT, instructions::measure(site, &variants))?;
    }
    if arguments.wants(Part::Latency) {
        results.latency = block_on(LIMIT, latency::measure(site, &variants))?;
        results.gate = Some(block_on(LIMIT, latency::measure_gate(site))?);
    }
    if arguments.wants(Part::Memory) {
        results.memory = block_on(LIMIT, memory::measure(site, &variants))?;
    }
    if arguments.wants(Part::Sockets) {
        results.sockets = block_on(LIMIT, sockets::measure(site))?;
    }
    Ok(results.judged())
}

/// Prints the results on standard output.
fn print(what: &str) -> Outcome {
    Ok(writeln!(std::io::stdout(), "{what}")?)
}
