//! `laststream completions`

use clap::builder::PossibleValue;
use clap::{Args, Command};
use clap_complete::Shell;

use crate::commands::{Ended, Exit, Printer};

/// Prints a completion script for a shell.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  eval \"$(laststream completions bash)\"\n  laststream completions \
        zsh > _laststream\n  \
    laststream completions fish | source"
)]
pub(crate) struct Completions {
    /// The shell.
    shell: Shell,
}

pub(crate) fn run(completions: &Completions, mut program: Command, printer: &Printer) -> Ended {
    let mut script = Vec::new();
    clap_complete::generate(completions.shell, &mut program, env!("CARGO_BIN_NAME"), &mut script);
    if completions.shell == Shell::Fish {
        script.extend(fish_values(&program).into_bytes());
    }
    printer.stdout_verbatim(&String::from_utf8_lossy(&script));
    Ok(Exit::Fine)
}

/// The values of each command's first argument, which the generated script for fish leaves out.
fn fish_values(program: &Command) -> String {
    let with_values = program.get_subcommands().filter_map(|command| {
        let values = command.get_positionals().next()?.get_possible_values();
        let values: Vec<&str> = values.iter().map(PossibleValue::get_name).collect();
        (!values.is_empty()).then(|| (command.get_name(), values.join(" ")))
    });
    let lines = with_values.map(|(name, values)| {
        format!(
            "complete -c laststream -n \"__fish_laststream_using_subcommand {name}\" -f -a \
                \"{values}\"\n"
        )
    });
    lines.collect()
}
