//! What the filter costs on a real Envoy, beside no filter and beside Lua: `cargo bench`, explained by `cargo bench -- --help` and
//! docs/cost/README.md. It measures and asserts no time.

mod arguments;
mod callgrind;
mod instructions;
mod numbers;
mod site;
mod variants;

#[path = "../support/mod.rs"]
mod support;

use std::io::Write as _;
use std::process::ExitCode;
use std::time::Duration;

use clap::Parser as _;

use crate::arguments::{Arguments, Part};
use crate::site::Site;
use crate::support::failure::Outcome;
use crate::support::trial::block_on;

fn main() -> ExitCode {
    match run(&Arguments::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            say(&format!("error: {failure}"));
            ExitCode::from(2)
        }
    }
}

fn run(arguments: &Arguments) -> Outcome {
    let site = Site::find(arguments.envoy)?;
    say(&format!("Envoy {}, a module of {} bytes", site.version, std::fs::metadata(&site.module)?.len()));
    if arguments.wants(Part::Instructions) {
        let limit = Duration::from_secs(1200);
        let rows = block_on(limit, instructions::measure(&site, &variants::chosen(&arguments.variants)?))?;
        tell(&instructions::table(&rows))?;
    }
    Ok(())
}

/// What is under way, for whoever waits.
fn say(what: &str) {
    let _ = writeln!(std::io::stderr(), "{what}"); // nobody to tell when standard error is closed
}

/// What was asked for.
fn tell(what: &str) -> Outcome {
    Ok(writeln!(std::io::stdout(), "{what}")?)
}
