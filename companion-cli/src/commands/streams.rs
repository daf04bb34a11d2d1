//! `laststream streams`

use clap::Args;
use laststream_gate::text;

use crate::args::pods::FleetArgs;
use crate::commands::gate_args::{EXIT_CODES, GateArgs};
use crate::commands::pods::streams as many;
use crate::commands::{Ended, Exit, Output, Printer};

/// Lists the oldest streams that hold the drain of an Envoy, or the drains of pods.
#[derive(Debug, Args)]
#[command(after_help = format!(
    "Examples:\n  laststream streams\n  laststream streams --limit 100 -o json\n  laststream \
        streams --secret-file /etc/laststream/secret\n  laststream streams web-1 -n shop\n  \
        laststream streams -n shop -l app=web\n\n\
        {EXIT_CODES} For many pods, 1 means that the list may lack streams: pods could not be \
        asked, have not listed all, or have more than `--limit`."
))]
pub(crate) struct Streams {
    #[command(flatten)]
    gate: GateArgs,
    #[command(flatten)]
    pub(super) fleet: FleetArgs,
    /// The largest number of streams to list.
    #[arg(
        long,
        value_name = "COUNT",
        default_value_t = 20,
        value_parser = clap::value_parser!(u32).range(1..=100)
    )]
    pub(super) limit: u32,
    /// The format of the result. `json` prints the body of the gate's response; for many pods, an
    /// object with `streams`, each with its namespace and pod, with `pods`, each with its counts,
    /// and with `complete`.
    #[arg(short, long, value_name = "FORMAT", value_enum, default_value_t)]
    pub(super) output: Output,
}

pub(crate) fn run(command: &Streams, printer: &Printer) -> Ended {
    if command.fleet.are_given() {
        command.gate.refuse()?;
        return many::run(command, printer);
    }
    let answer = command.gate.ask(|gate| gate.streams(command.limit))?;
    printer.answer(command.output, &answer.text, &text::streams(&answer.body));
    Ok(Exit::Fine)
}
