//! Waits for the gate of one Envoy: `prestop` begins the drain, `wait` does not.

use clap::Args;
use laststream_base::time_span::TimeSpan;
use laststream_gate::{self as gate, GateAnswer, GateClient, Outcome, WaitAnswer, WaitEnd, text};

use crate::gate_args::{GateArgs, error_text, failed, is_refusal, way_out};
use crate::{Ended, Exit, Failure, Output, Printer};

/// The stop hook of an Envoy: begins the drain and waits until the gate is open. It needs no shell.
///
/// Only a 200 from the gate ends the wait before the time-out. If the gate cannot be reached, the
/// command tries again.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
        laststream prestop\n  \
        laststream prestop --timeout 64s --gate http://127.0.0.1:16091\n\n\
        Exit codes: 0 the gate is open, also if its deadline or `--force` has opened it, 1 the \
        time-out came first, 2 the gate could not be asked at the time-out, 64 wrong arguments. \
        Kubernetes stops the container after the hook whatever its exit code is; another one than \
        0 makes the event FailedPreStopHook, which is for a hook that did not do its work. Streams \
        that a deadline cuts are in the metrics and in Envoy's log.\n\n\
        The time-out must be longer than the gate's deadline and shorter than the grace period of \
        the pod.")]
pub struct Prestop {
    #[command(flatten)]
    gate: GateArgs,
    #[command(flatten)]
    time: WaitTime,
    /// The format of the result. `json` prints the body of the gate's response.
    #[arg(short, long, value_name = "FORMAT", value_enum, default_value_t)]
    output: Output,
}

#[derive(Debug, Args)]
pub struct WaitTime {
    /// How long to wait at most; `0s` asks once.
    #[arg(long, value_name = "TIME", default_value = "25s")]
    pub timeout: TimeSpan,
    /// The time between two requests, if the gate does not hold the request.
    #[arg(long, value_name = "TIME", default_value = "500ms")]
    pub interval: TimeSpan,
}

/// Waits until the drain of an Envoy is over, and says how it ended. It begins none;
/// `prestop` does.
///
/// If the gate cannot be reached, the command tries again until the time-out.
#[derive(Debug, Args)]
#[command(after_help = WAIT_HELP)]
pub struct Wait {
    #[command(flatten)]
    gate: GateArgs,
    #[command(flatten)]
    time: WaitTime,
    /// The format of the result. `json` prints the body of the gate's response.
    #[arg(short, long, value_name = "FORMAT", value_enum, default_value_t)]
    output: Output,
}

const WAIT_HELP: &str = "\
Exit codes: 0 the last stream that held the drain has ended, so none was cut, 1 the time-out came \
first, or the deadline or `--force` has opened the gate, 2 the gate could not be asked at the \
time-out, 64 wrong arguments.";

/// Runs `wait`.
///
/// # Errors
/// The gate could not be asked at the time-out, or its secret cannot be read.
pub fn run(command: &Wait, printer: &Printer) -> Ended {
    wait(&command.gate, &command.time, command.output, printer)
}

/// Waits until the gate is open. Only a gate that has drained is a success.
///
/// # Errors
/// The gate could not be asked at the time-out, or its secret cannot be read.
pub fn wait(gate: &GateArgs, time: &WaitTime, output: Output, printer: &Printer) -> Ended {
    let answer = hold(&gate.gate()?, time, false, printer)?;
    let exit = show(&answer, output, printer);
    // Open is not enough: a deadline opens the gate, too, and streams in flight are then cut.
    Ok(if answer.body.state == "drained" { exit } else { Exit::Negative })
}

/// Runs `prestop`.
///
/// # Errors
/// The gate could not be asked at the time-out, or its secret cannot be read.
pub fn run_prestop(command: &Prestop, printer: &Printer) -> Ended {
    let gate = command.gate.gate()?;
    let answer = hold(&gate, &command.time, true, printer)?;
    Ok(show(&answer, command.output, printer))
}

/// Waits, and prints the progress. Returns the gate's last answer.
fn hold(
    gate: &GateClient,
    time: &WaitTime,
    begin: bool,
    printer: &Printer,
) -> Result<GateAnswer<Outcome>, Failure> {
    let (mut printed, mut refused) = (String::new(), false);
    let mut print_if_new = |answer: &WaitAnswer| {
        refused = answer.as_ref().is_err_and(is_refusal);
        // Without the numbers that change all the time.
        let now = match answer {
            Ok(answer) => text::held(&answer.body.state, answer.body.holding.unwrap_or_default()),
            Err(error) => error_text(gate, error),
        };
        if now != printed {
            printer.status_line(&now);
            printed = now;
        }
    };
    let [timeout, interval] = [time.timeout, time.interval].map(TimeSpan::duration);
    let wait = gate::Wait { timeout, interval, begin };
    match gate::wait(gate, &wait, &mut print_if_new) {
        WaitEnd::Open(answer) => Ok(answer),
        WaitEnd::Late(Ok(answer)) => {
            if !timeout.is_zero() {
                printer.error(&format!("the gate is not open after {}", time.timeout));
            }
            Ok(answer)
        }
        // Also if the time-out has cut the last question off.
        WaitEnd::Late(Err(_)) if refused => {
            Err(format!("the gate still refuses after {}", time.timeout).into())
        }
        WaitEnd::Late(Err(error)) if printed == error_text(gate, &error) => {
            Err(format!("no answer within {}{}", time.timeout, way_out(&error)).into())
        }
        WaitEnd::Late(Err(error)) => Err(failed(gate, &error).into()),
    }
}

fn show(answer: &GateAnswer<Outcome>, output: Output, printer: &Printer) -> Exit {
    printer.answer(output, &answer.text, &text::outcome(&answer.body));
    if answer.status == 200 { Exit::Fine } else { Exit::Negative }
}
