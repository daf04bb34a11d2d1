//! `laststream drain`

use clap::Args;
use laststream_gate::text;

use crate::commands::exit::Exit;
use crate::commands::gate_args::GateArgs;
use crate::commands::output::Output;
use crate::commands::printer::Printer;

/// Begins the drain of an Envoy, cancels it, or opens its gate by force. This command does not
/// wait; `laststream wait` does.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
        laststream drain\n  \
        laststream drain --cancel\n  \
        laststream drain --force --reason 'the app is gone'\n\n\
        Exit codes: 0 done, 1 no drain begins, because the deadline of an earlier drain or \
        `--force` has opened the gate, 2 the gate cannot be asked, or refuses, 64 wrong \
        arguments.")]
pub(crate) struct Drain {
    #[command(flatten)]
    gate: GateArgs,
    /// Cancels the drain: the gate serves again. The answer says what Envoy cannot undo, such as
    /// listeners that tell clients to leave.
    #[arg(long, conflicts_with = "force")]
    cancel: bool,
    /// Opens the gate even if streams are in flight. These streams are cut when the proxy stops.
    #[arg(long, requires = "reason")]
    force: bool,
    /// The reason, for Envoy's log and for waiting hooks.
    #[arg(long, value_name = "TEXT", requires = "force", value_parser = reason)]
    reason: Option<String>,
    /// The format of the result. `json` prints the body of the gate's response.
    #[arg(short, long, value_name = "FORMAT", value_enum, default_value_t)]
    output: Output,
}

fn reason(text: &str) -> Result<String, &'static str> {
    if text.trim().is_empty() { Err("say why") } else { Ok(text.to_owned()) }
}

pub(super) fn run(command: &Drain, printer: &Printer) -> Result<Exit, Exit> {
    let answer = command.gate.ask(printer, |gate| match &command.reason {
        Some(reason) => gate.force(reason),
        None if command.cancel => gate.cancel(),
        None => gate.drain(),
    })?;
    printer.result(command.output, &answer.text, &text::outcome(&answer.body));
    // An expired or forced gate begins no new drain until it serves again: after `open_ms`, or when
    // the drain is cancelled.
    let is_refused = !command.cancel
        && command.reason.is_none()
        && matches!(answer.body.state.as_str(), "expired" | "forced");
    Ok(if is_refused { Exit::Negative } else { Exit::Fine })
}
