//! `laststream-hook`: the commands of `laststream` that stop hooks and Jobs run, as a program that
//! is small enough for every pod. Images hold it as `/laststream`, so its help has that name.

use std::process::ExitCode;

use clap::{Parser, Subcommand};
use laststream_hook::exec::{self, Exec};
use laststream_hook::gate::{self, GateCommand};
use laststream_hook::install::{self, Install};
use laststream_hook::wait::{self, Prestop, Wait};
use laststream_hook::{Conduct, Printer, print_usage, run};

/// Holds an Envoy that stops until its last request has been answered: the commands of stop hooks
/// and Jobs.
#[derive(Debug, Parser)]
#[command(name = "laststream", version, arg_required_else_help = true)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Exec(Box<Exec>),
    Gate(Box<GateCommand>),
    Install(Install),
    Prestop(Prestop),
    Wait(Wait),
}

fn main() -> ExitCode {
    let exit = match Arguments::try_parse() {
        Ok(arguments) => run(conduct(&arguments.command), |printer| match arguments.command {
            Command::Exec(command) => exec::run(&command, printer),
            Command::Gate(command) => gate::run(&command, printer),
            Command::Install(command) => install::run(&command, printer),
            Command::Prestop(command) => wait::run_prestop(&command, printer),
            Command::Wait(command) => wait::run(&command, printer),
        }),
        Err(error) => {
            let text = error.render().ansi().to_string();
            print_usage(error.kind(), &text, &Printer::default())
        }
    };
    ExitCode::from(exit.code())
}

/// `exec` and `gate` have their own signal handlers.
fn conduct(command: &Command) -> Conduct {
    Conduct {
        is_verdict: matches!(command, Command::Prestop(_) | Command::Wait(_)),
        ends_at_signals: !matches!(command, Command::Exec(_) | Command::Gate(_)),
    }
}
