//! `laststream streams`

use clap::Args;
use laststream_gate::text;
use laststream_hook::gate_args::{EXIT_CODES, GateArgs};

use crate::commands::pods::streams::{self as many, StreamsArgs};
use crate::commands::{Ended, Exit, Printer};

/// Lists the oldest streams that hold the drain of an Envoy, or the drains of pods.
#[derive(Debug, Args)]
#[command(after_help = format!(
    "Examples:\n  laststream streams\n  laststream streams --limit 100 -o json\n  laststream \
        streams --secret-file /etc/laststream/secret\n  laststream streams web-1 -n shop\n  \
        laststream streams -n shop -l app=web\n\n\
        {EXIT_CODES} For many pods, 1 means that the list may lack streams: pods could not be \
        asked, have not listed all, or have more than `--limit`; and 2 also that the namespace or \
        the selector has no pod."
))]
pub(crate) struct Streams {
    #[command(flatten)]
    gate: GateArgs,
    #[command(flatten)]
    listed: StreamsArgs,
}

pub(crate) fn run(command: &Streams, printer: &Printer) -> Ended {
    if command.listed.fleet.are_given() {
        command.gate.refuse()?;
        return many::run(&command.listed, printer);
    }
    let answer = command.gate.ask(|gate| gate.streams(command.listed.limit))?;
    printer.answer(command.listed.output, &answer.text, &text::streams(&answer.body));
    Ok(Exit::Fine)
}
