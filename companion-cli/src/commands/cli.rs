//! The list of commands. Each has its arguments and its help in its own file under `commands`.

use clap::{CommandFactory as _, Parser, Subcommand};

use crate::commands::build::Build;
use crate::commands::completions::Completions;
use crate::commands::config::Config;
use crate::commands::demo::Demo;
use crate::commands::drain::Drain;
use crate::commands::envoy::Envoy;
use crate::commands::exec::Exec;
use crate::commands::guarded::Guarded;
use crate::commands::inspect::Inspect;
use crate::commands::install::Install;
use crate::commands::lint::Lint;
use crate::commands::man::Man;
use crate::commands::module::Module;
use crate::commands::overview;
use crate::commands::pods::deletion_cost::DeletionCost;
use crate::commands::pods::rollout::Rollout;
use crate::commands::push::Push;
use crate::commands::render::Render;
use crate::commands::run::Run;
use crate::commands::size::Size;
use crate::commands::status::Status;
use crate::commands::streams::Streams;
use crate::commands::version::Version;
use crate::commands::wait::{Prestop, Wait};

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
        let shown = whole.get_subcommands().filter(|command| !command.is_hide_set()).cloned();
        let shown = clap::Command::new(env!("CARGO_BIN_NAME"))
            .version(env!("CARGO_PKG_VERSION"))
            .about(whole.get_about().cloned().unwrap_or_default())
            .after_help(EXIT_CODES)
            .arg_required_else_help(true)
            .subcommand_required(true)
            .subcommands(shown.collect::<Vec<_>>());
        let template = overview::template(&shown);
        shown.help_template(template)
    }

    /// Whether this is the name of a hidden command. These still work.
    pub(crate) fn is_hidden(name: &str) -> bool {
        Self::command().find_subcommand(name).is_some_and(clap::Command::is_hide_set)
    }
}

const EXIT_CODES: &str = "\
Exit codes: 0 success, 1 a negative result (a finding, a time-out, streams that were cut), 2 the \
command failed, 64 wrong arguments. If the reader closes the pipe of the output, commands whose \
exit code is a verdict (`inspect`, `lint`, `prestop`, `render --check`, `rollout`, `status \
--watch`, `wait`) end with 141, others with 0.";

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    Build(Build),
    Completions(Completions),
    /// Prints the schema of the module's configuration, checks a configuration, prints the gate's
    /// interface.
    #[command(subcommand)]
    Config(Config),
    DeletionCost(Box<DeletionCost>),
    Demo(Demo),
    Drain(Box<Drain>),
    /// Finds or downloads an Envoy for this machine.
    #[command(subcommand)]
    Envoy(Envoy),
    Exec(Box<Exec>),
    #[command(hide = true)]
    Guarded(Guarded),
    Inspect(Box<Inspect>),
    #[command(hide = true)]
    Install(Install),
    Lint(Box<Lint>),
    Man(Man),
    Module(Module),
    Prestop(Prestop),
    Push(Box<Push>),
    /// Renders manifests for Istio, Envoy, Envoy Gateway and Helm from one policy file.
    Render(Box<Render>),
    Rollout(Box<Rollout>),
    Run(Box<Run>),
    Size(Box<Size>),
    Status(Box<Status>),
    Streams(Box<Streams>),
    Version(Version),
    Wait(Box<Wait>),
}
