//! `laststream wait` and `laststream ready`

use std::time::Duration;

use clap::Args;
use laststream_base::time_span::TimeSpan;
use laststream_gate::{self as gate, Gate, GateAnswer, Outcome, WaitAnswer, WaitEnd, text};

use crate::commands::exit::Exit;
use crate::commands::gate_args::{GateArgs, error_text, failed};
use crate::commands::output::Output;
use crate::commands::printer::Printer;

/// Begins the drain of an Envoy and waits until its gate is open. For stop hooks; it needs no
/// shell.
///
/// Only a 200 from the gate ends the wait before the time-out. If the gate cannot be reached, the
/// command tries again.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
        laststream wait\n  \
        laststream wait --timeout 60s\n  \
        laststream wait --no-begin --gate http://127.0.0.1:15091\n\n\
        Exit codes: 0 the gate is open, 1 the time-out came first, 2 the gate could not be asked \
        at the time-out, 64 wrong arguments.\n\n\
        The time-out must be longer than the gate's deadline and shorter than the grace period of \
        the pod, because Kubernetes stops the container after the hook whatever its exit code is.")]
pub(crate) struct Wait {
    #[command(flatten)]
    gate: GateArgs,
    /// How long to wait at most.
    #[arg(long, value_name = "TIME", default_value = "25s")]
    timeout: TimeSpan,
    /// The time between two requests, if the gate does not hold the request.
    #[arg(long, value_name = "TIME", default_value = "500ms")]
    interval: TimeSpan,
    /// Does not begin a drain. Waits until a drain that something else began is over.
    #[arg(long)]
    no_begin: bool,
    /// The format of the result. `json` prints the body of the gate's response.
    #[arg(short, long, value_name = "FORMAT", value_enum, default_value_t)]
    output: Output,
}

/// Checks once whether the gate of an Envoy is open, as `wait --no-begin --timeout 0s` does. Hidden
/// in the help.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  laststream ready\n  laststream drain && sleep 5 && \
        laststream ready && echo 'nothing is in flight'\n\n\
    Exit codes: 0 the gate is open, 1 not yet or no drain was asked for, 2 the gate cannot be \
        asked, 64 wrong arguments.")]
pub(crate) struct Ready {
    #[command(flatten)]
    gate: GateArgs,
    /// The format of the result. `json` prints the body of the gate's response.
    #[arg(short, long, value_name = "FORMAT", value_enum, default_value_t)]
    output: Output,
}

const PATIENCE: Duration = Duration::from_secs(5);

pub(super) fn run(command: &Wait, printer: &Printer) -> Result<Exit, Exit> {
    let gate = command.gate.gate(printer)?;
    let [timeout, interval] = [command.timeout, command.interval].map(TimeSpan::duration);
    let mut printed = String::new();
    let mut print_if_new = |answer: &WaitAnswer| {
        let now = progress_text(&gate, answer);
        if now != printed {
            printer.status_line(&now);
            printed = now;
        }
    };
    let wait = gate::Wait { timeout, interval, begin: !command.no_begin };
    match gate::wait(&gate, &wait, &mut print_if_new) {
        WaitEnd::Open(answer) => Ok(show(&answer, command.output, printer)),
        WaitEnd::Late(answer) => {
            printer.error(&format!("the gate is not open after {}", command.timeout));
            match answer {
                Ok(answer) => Ok(show(&answer, command.output, printer)),
                Err(error) => Err(failed(&gate, &error, printer)),
            }
        }
    }
}

pub(super) fn run_ready(command: &Ready, printer: &Printer) -> Result<Exit, Exit> {
    let answer = command.gate.ask(printer, |gate| gate.ready(PATIENCE))?;
    Ok(show(&answer, command.output, printer))
}

fn show(answer: &GateAnswer<Outcome>, output: Output, printer: &Printer) -> Exit {
    printer.result(output, &answer.text, &text::outcome(&answer.body));
    if answer.status == 200 { Exit::Fine } else { Exit::Negative }
}

/// The progress, without the numbers that change all the time.
fn progress_text(gate: &Gate, answer: &WaitAnswer) -> String {
    match answer {
        Ok(answer) => text::held(&answer.body),
        Err(error) => error_text(gate, error),
    }
}
