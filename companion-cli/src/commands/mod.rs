//! One file for each command: it does the work, prints the result, and returns the exit code. The
//! error that ends a command is printed here.

pub(crate) mod build;
pub(crate) mod cli;
mod cluster_args;
pub(crate) mod completions;
pub(crate) mod config;
pub(crate) mod demo;
pub(crate) mod drain;
pub(crate) mod envoy;
#[cfg(test)]
pub(crate) mod examples;
pub(crate) mod exec;
mod exit;
mod gate_args;
pub(crate) mod guarded;
mod input;
pub(crate) mod inspect;
pub(crate) mod install;
pub(crate) mod lint;
pub(crate) mod man;
pub(crate) mod module;
mod output;
pub(crate) mod overview;
pub(crate) mod plugin;
pub(crate) mod pods;
mod policy_images;
pub(crate) mod printer;
pub(crate) mod push;
mod registry_args;
pub(crate) mod render;
pub(crate) mod run;
mod screen;
pub(crate) mod size;
pub(crate) mod status;
pub(crate) mod streams;
pub(crate) mod version;
pub(crate) mod wait;

pub(crate) use exit::{Ended, Exit, Failure, misused, printed};
pub(crate) use output::{FleetOutput, Output};
pub(crate) use printer::Printer;

use laststream_base::children;

use crate::commands::cli::{Arguments, Command};

/// Runs the command, and ends the programs that it started.
pub(crate) fn run(arguments: Arguments) -> Exit {
    let is_verdict = is_verdict(&arguments.command);
    let printer = &if is_verdict { Printer::of_verdicts() } else { Printer::default() };
    if ends_at_signals(&arguments.command)
        && let Err(error) = children::end_at_signals()
    {
        return printer.failure(format!("signals cannot be handled: {error}").into());
    }
    let exit = run_command(arguments, printer).unwrap_or_else(|error| printer.failure(error));
    children::end();
    exit
}

/// Signals have no default action in process 1 of a container, so every command needs handlers.
/// `exec` has its own; `guarded` becomes another program, which would lose the handlers. Other
/// commands with their own handlers call `leave_signals` when these are in place.
fn ends_at_signals(command: &Command) -> bool {
    !matches!(command, Command::Exec(_) | Command::Guarded(_))
}

/// Whether the exit code is a verdict, instead of saying that a document was printed.
fn is_verdict(command: &Command) -> bool {
    match command {
        Command::Drain(_)
        | Command::Inspect(_)
        | Command::Prestop(_)
        | Command::Rollout(_)
        | Command::Wait(_) => true,
        Command::Lint(command) => command.is_check(),
        Command::Render(command) => command.check.is_some(),
        Command::Status(command) => command.watch,
        _ => false,
    }
}

fn run_command(arguments: Arguments, printer: &Printer) -> Ended {
    match arguments.command {
        Command::Build(command) => build::run(&command, printer),
        Command::Completions(command) => completions::run(&command, Arguments::shown(), printer),
        Command::Config(command) => config::run(&command, printer),
        Command::DeletionCost(command) => pods::deletion_cost::run(&command, printer),
        Command::Demo(command) => demo::run(&command, printer),
        Command::Drain(command) => drain::run(&command, printer),
        Command::Envoy(command) => envoy::run(&command, printer),
        Command::Exec(command) => exec::run(&command, printer),
        Command::Guarded(command) => guarded::run(&command),
        Command::Inspect(command) => inspect::run(&command, printer),
        Command::Install(command) => install::run(&command, printer),
        Command::Lint(command) => lint::run(&command, printer),
        Command::Man(command) => man::run(&command, Arguments::shown()),
        Command::Module(command) => module::run(&command, printer),
        Command::Prestop(command) => wait::run_prestop(&command, printer),
        Command::Push(command) => push::run(*command, printer),
        Command::Render(command) => render::run(&command, printer),
        Command::Rollout(command) => pods::rollout::run(&command, printer),
        Command::Run(command) => run::run(&command, printer),
        Command::Size(command) => size::run(&command, printer),
        Command::Status(command) => status::run(&command, printer),
        Command::Streams(command) => streams::run(&command, printer),
        Command::Version(command) => version::run(&command, printer),
        Command::Wait(command) => wait::run(&command, printer),
    }
}
