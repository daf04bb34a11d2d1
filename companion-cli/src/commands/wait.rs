//! `laststream wait`

use clap::Args;
use laststream_hook::gate_args::GateArgs;
use laststream_hook::wait::{self, WaitTime};

use crate::args::pods::PodArgs;
use crate::commands::pods::wait as many;
use crate::commands::{Ended, Output, Printer};

/// Waits until a drain is over, and says how it ended: the drain of an Envoy, or those of pods. It
/// begins none; `laststream drain` does.
///
/// If a gate cannot be reached, the command tries again until the time-out.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
        laststream drain && laststream wait && echo 'no stream that held the drain was cut'\n  \
        laststream wait --timeout 0s\n  \
        laststream wait web-1 web-2 -n shop --timeout 2m\n\n\
        Exit codes: 0 the last stream that held the drain has ended, so none was cut, 1 the \
        time-out came first, or the deadline or `--force` has opened the gate, 2 the gate could \
        not be asked at the time-out, 64 wrong arguments. For pods, 1 means that one of them has \
        ended in another way than 0 says, and 2 that the API server cannot be asked, a right is \
        missing, or no pod has the labels.")]
pub(crate) struct Wait {
    #[command(flatten)]
    gate: GateArgs,
    #[command(flatten)]
    pods: PodArgs,
    #[command(flatten)]
    time: WaitTime,
    /// The format of the result. `json` prints the body of the gate's response; for pods, one
    /// object with `pods`.
    #[arg(short, long, value_name = "FORMAT", value_enum, default_value_t)]
    output: Output,
}

pub(crate) fn run(command: &Wait, printer: &Printer) -> Ended {
    if command.pods.are_given() {
        command.gate.refuse()?;
        command.pods.require_names_or_labels()?;
        let time = [command.time.timeout, command.time.interval];
        return many::run(&command.pods, time, command.output, printer);
    }
    wait::wait(&command.gate, &command.time, command.output, printer)
}
