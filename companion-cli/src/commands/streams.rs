//! `laststream streams`

use clap::Args;
use laststream::gate::text;

use crate::commands::exit::Exit;
use crate::commands::gate_args::{EXIT_CODES, GateArgs, failed};
use crate::commands::output::Output;
use crate::commands::printer::Printer;

/// Lists the oldest streams that hold the drain of an Envoy.
#[derive(Debug, Args)]
#[command(after_help = format!(
    "Examples:\n  laststream streams\n  laststream streams --limit 100 -o json\n  laststream \
        streams --secret-file /etc/laststream/secret\n\n{EXIT_CODES}"
))]
pub(crate) struct Streams {
    #[command(flatten)]
    gate: GateArgs,
    /// The largest number of streams to list.
    #[arg(
        long,
        value_name = "COUNT",
        default_value_t = 20,
        value_parser = clap::value_parser!(u32).range(1..=100)
    )]
    limit: u32,
    /// The format of the result. `json` prints the body of the gate's response.
    #[arg(short, long, value_name = "FORMAT", value_enum, default_value_t)]
    output: Output,
}

pub(super) fn run(command: &Streams, printer: &Printer) -> Exit {
    let gate = match command.gate.gate(printer) {
        Ok(gate) => gate,
        Err(exit) => return exit,
    };
    match gate.streams(command.limit) {
        Ok(answer) => {
            match command.output {
                Output::Json => printer.json(&answer.text),
                Output::Text => printer.stdout(&text::streams(&answer.body)),
            }
            Exit::Fine
        }
        Err(error) => failed(&gate, &error, printer),
    }
}
