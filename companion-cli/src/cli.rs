//! The list of commands. Each has its arguments and its help in its own file under `commands`.

use clap::{CommandFactory as _, Parser, Subcommand};
use laststream_hook::exec::Exec;
use laststream_hook::gate::GateCommand;
use laststream_hook::install::Install;
use laststream_hook::wait::Prestop;

use crate::commands::pods::{deletion_cost, rollout};
use crate::commands::{
    assess, build, completions, config, demo, drain, envoy, guarded, inspect, lint, man, module,
    push, render, run, size, status, streams, version, wait,
};
use crate::overview;

/// Holds an Envoy that stops until its last request has been answered.
#[derive(Debug, Parser)]
#[command(version, arg_required_else_help = true, after_help = EXIT_CODES)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    pub(crate) command: Command,
}

impl Arguments {
    /// The command line without hidden commands, for help, tips, completions and manual pages.
    pub(crate) fn shown() -> clap::Command {
        let whole = Self::command();
        let commands = whole.get_subcommands().filter(|command| !command.is_hide_set()).cloned();
        clap::Command::new(env!("CARGO_BIN_NAME"))
            .version(env!("CARGO_PKG_VERSION"))
            .about(whole.get_about().cloned().unwrap_or_default())
            .after_help(EXIT_CODES)
            .arg_required_else_help(true)
            .subcommand_required(true)
            .subcommands(commands.collect::<Vec<_>>())
            .help_template(overview::TEMPLATE)
    }

    /// Whether this is the name of a hidden command. These still work.
    pub(crate) fn is_hidden(name: &str) -> bool {
        Self::command().find_subcommand(name).is_some_and(clap::Command::is_hide_set)
    }
}

const EXIT_CODES: &str = "\
Exit codes: 0 success, 1 a negative result (a finding, a time-out, streams that were cut), 2 the \
command failed, 64 wrong arguments. If the reader closes the pipe of the output, commands whose \
exit code is a verdict (`assess --fail-on`, `inspect`, `lint`, `prestop`, `render --check`, \
`rollout`, `status --watch`, `wait`) end with 141, others with 0.";

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    Assess(Box<assess::Assess>),
    Build(build::Build),
    Completions(completions::Completions),
    /// Prints the schema of the module's configuration, checks a configuration, prints the gate's
    /// interface.
    #[command(subcommand)]
    Config(config::Config),
    DeletionCost(Box<deletion_cost::DeletionCost>),
    Demo(demo::Demo),
    Drain(Box<drain::Drain>),
    /// Finds or downloads an Envoy for this machine.
    #[command(subcommand)]
    Envoy(envoy::Envoy),
    Exec(Box<Exec>),
    Gate(Box<GateCommand>),
    #[command(hide = true)]
    Guarded(guarded::Guarded),
    Inspect(Box<inspect::Inspect>),
    #[command(hide = true)]
    Install(Install),
    Lint(Box<lint::Lint>),
    Man(man::Man),
    Module(module::Module),
    Prestop(Prestop),
    Push(Box<push::Push>),
    /// Renders manifests for Istio, Envoy, Envoy Gateway and Helm from one policy file.
    Render(Box<render::Render>),
    Rollout(Box<rollout::Rollout>),
    Run(Box<run::Run>),
    Size(Box<size::Size>),
    Status(Box<status::Status>),
    Streams(Box<streams::Streams>),
    Version(version::Version),
    Wait(Box<wait::Wait>),
}
