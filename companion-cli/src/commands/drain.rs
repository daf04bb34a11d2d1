//! `laststream drain`

use clap::Args;
use laststream_gate::{DrainCommand, text};
use laststream_hook::gate_args::GateArgs;

use crate::args::pods::PodArgs;
use crate::commands::pods::drain as many;
use crate::commands::{Ended, Exit, Output, Printer};

/// Begins the drain of an Envoy or of pods, cancels it, or opens the gates by force. This command
/// does not wait; `laststream wait` does.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
        laststream drain\n  \
        laststream drain --cancel\n  \
        laststream drain web-1 -n shop --force --reason 'incident 42'\n  \
        laststream drain -n shop -l app=web --yes\n\n\
        For pods, the command shows them with their states and streams, and asks for \
        confirmation on the terminal; `--yes` confirms.\n\n\
        Exit codes: 0 done, 1 no drain begins, because the deadline of an earlier drain or \
        `--force` has opened the gate, 2 the gate cannot be asked, or refuses, 64 wrong \
        arguments. For pods, 1 means that one of them has no such result or that nothing was \
        confirmed, and 2 that the API server cannot be asked, a right is missing, or no pod has \
        the labels.")]
pub(crate) struct Drain {
    #[command(flatten)]
    gate: GateArgs,
    #[command(flatten)]
    pods: PodArgs,
    /// Cancels the drain: the gate serves again. The answer says what Envoy cannot undo, such as
    /// listeners that tell clients to leave.
    #[arg(long, conflicts_with = "force")]
    cancel: bool,
    /// Opens the gate even if streams are in flight. These streams are cut when the proxy stops.
    #[arg(long, requires = "reason")]
    force: bool,
    /// Why the gate is opened by force, for Envoy's log and for waiting hooks. Only `--force` takes
    /// a reason.
    #[arg(long, value_name = "TEXT", requires = "force", value_parser = reason)]
    reason: Option<String>,
    /// Changes pods without asking for confirmation.
    #[arg(short, long)]
    yes: bool,
    /// The format of the result. `json` prints the body of the gate's response; for pods, one
    /// object with `pods`.
    #[arg(short, long, value_name = "FORMAT", value_enum, default_value_t)]
    output: Output,
}

fn reason(text: &str) -> Result<String, &'static str> {
    if text.trim().is_empty() { Err("say why") } else { Ok(text.to_owned()) }
}

impl Drain {
    fn command(&self) -> DrainCommand {
        match &self.reason {
            Some(reason) => DrainCommand::Force(reason.clone()),
            None if self.cancel => DrainCommand::Cancel,
            None => DrainCommand::Begin,
        }
    }
}

pub(crate) fn run(drain: &Drain, printer: &Printer) -> Ended {
    let command = &drain.command();
    // A variable with the names of pods may have been empty.
    if drain.pods.are_given() || drain.yes {
        drain.gate.refuse()?;
        drain.pods.require_names_or_labels()?;
        return many::run(&drain.pods, command, drain.yes, drain.output, printer);
    }
    let answer = drain.gate.ask(|gate| gate.command(command))?;
    printer.answer(drain.output, &answer.text, &text::outcome(&answer.body));
    let is_negative = command.is_without_effect(&answer.body);
    Ok(if is_negative { Exit::Negative } else { Exit::Fine })
}
