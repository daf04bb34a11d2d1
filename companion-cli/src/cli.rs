//! The commands there are. Each has its arguments and its help in its own file under `commands`.

use clap::{Parser, Subcommand, ValueEnum};

use crate::commands::build::Build;
use crate::commands::completions::Completions;
use crate::commands::config::Config;
use crate::commands::envoy::Envoy;
use crate::commands::guard::Guard;
use crate::commands::inspect::Inspect;
use crate::commands::lint::Lint;
use crate::commands::man::Man;
use crate::commands::push::Push;
use crate::commands::render::Render;
use crate::commands::run::Run;
use crate::commands::version::Version;

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
    Build(Build),
    Completions(Completions),
    /// The module's configuration: its schema, checking one; and the interface of the gate.
    #[command(subcommand)]
    Config(Config),
    /// A real Envoy for this machine.
    #[command(subcommand)]
    Envoy(Envoy),
    Guard(Guard),
    Inspect(Box<Inspect>),
    Lint(Lint),
    Man(Man),
    Push(Box<Push>),
    /// Renders what Istio, Envoy, Envoy Gateway and Helm need, from one policy file.
    Render(Box<Render>),
    Run(Box<Run>),
    Version(Version),
}

/// How results are written.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum Output {
    /// For people.
    #[default]
    Text,
    /// For programs.
    Json,
}
