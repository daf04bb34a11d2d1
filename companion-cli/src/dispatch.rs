//! Runs one command.

use laststream_hook::{Conduct, exec, gate, install};

use crate::cli::{Arguments, Command};
use crate::commands::{
    Ended, Exit, Printer, assess, build, completions, config, demo, drain, envoy, guarded, inspect,
    lint, man, module, pods, push, render, run, size, status, streams, version, wait,
};

/// Runs the command, and ends the programs that it started.
pub(crate) fn run(arguments: Arguments) -> Exit {
    let conduct = Conduct {
        is_verdict: is_verdict(&arguments.command),
        ends_at_signals: ends_at_signals(&arguments.command),
    };
    laststream_hook::run(conduct, |printer| run_command(arguments, printer))
}

/// `exec` and `gate` have their own handlers; `guarded` becomes another program, which would lose
/// the handlers.
/// Other commands with their own handlers call `leave_signals` when these are in place.
fn ends_at_signals(command: &Command) -> bool {
    !matches!(command, Command::Exec(_) | Command::Gate(_) | Command::Guarded(_))
}

/// Whether the exit code is a verdict, instead of saying that a document was printed.
fn is_verdict(command: &Command) -> bool {
    match command {
        Command::Drain(_)
        | Command::Inspect(_)
        | Command::Prestop(_)
        | Command::Rollout(_)
        | Command::Wait(_) => true,
        Command::Assess(command) => command.is_check(),
        Command::Lint(command) => command.is_check(),
        Command::Render(command) => command.check.is_some(),
        Command::Status(command) => command.shown.watch,
        _ => false,
    }
}

fn run_command(arguments: Arguments, printer: &Printer) -> Ended {
    match arguments.command {
        Command::Assess(command) => assess::run(&command, printer),
        Command::Build(command) => build::run(&command, printer),
        Command::Completions(command) => completions::run(&command, printer),
        Command::Config(command) => config::run(&command, printer),
        Command::DeletionCost(command) => pods::deletion_cost::run(&command, printer),
        Command::Demo(command) => demo::run(&command, printer),
        Command::Drain(command) => drain::run(&command, printer),
        Command::Envoy(command) => envoy::run(&command, printer),
        Command::Exec(command) => exec::run(&command, printer),
        Command::Gate(command) => gate::run(&command, printer),
        Command::Guarded(command) => guarded::run(&command),
        Command::Inspect(command) => inspect::run(&command, printer),
        Command::Install(command) => install::run(&command, printer),
        Command::Lint(command) => lint::run(&command, printer),
        Command::Man(command) => man::run(&command, Arguments::shown()),
        Command::Module(command) => module::run(&command, printer),
        Command::Prestop(command) => laststream_hook::wait::run_prestop(&command, printer),
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
