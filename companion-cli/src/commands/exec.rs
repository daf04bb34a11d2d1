//! `laststream exec`

use clap::Args;
use laststream_base::causes::Context as _;
use laststream_gate::exec::{self, Plan};

use crate::commands::gate_args::GateArgs;
use crate::commands::{Ended, Exit, Printer};

/// Runs the command of a Job beside a proxy. It waits until the proxy is ready, runs the command,
/// waits until the command's outbound streams have ended, and ends the proxy.
///
/// The command runs as a child process, without a shell, with the same standard input and outputs.
/// It receives the signals that this program receives, and its exit code becomes the exit code of
/// this program. It does not inherit LASTSTREAM_SECRET or the registry's credentials. Every wait
/// has a time-out.
#[derive(Debug, Args)]
#[command(after_help = HELP)]
pub(crate) struct Exec {
    #[command(flatten)]
    gate: GateArgs,
    #[command(flatten)]
    plan: Plan,
}

const HELP: &str = "\
Examples:
  laststream exec -- ./job --rows 1000
  laststream exec --streams-timeout 2m -- ./job
  laststream exec --ready-url http://127.0.0.1:9901/ready \
--quit-url http://127.0.0.1:9901/quitquitquit -- ./job
  laststream exec --no-proxy-ok -- ./job

Exit codes: the command's own, or 128 plus the number of the signal that ended it; 127 the command \
does not exist, 126 it cannot be run, 2 the proxy was never ready, 64 wrong arguments. Errors \
after the command has ended are printed and do not change the exit code.

A terminating signal outside the command's run ends the wait and leaves the proxy running.";

pub(crate) fn run(command: &Exec, printer: &Printer) -> Ended {
    let gate = command.gate.gate()?;
    let code = exec::run(&command.plan, &gate, printer)
        .context("signals cannot be watched, so the command was not run")?;
    Ok(Exit::Child(code))
}
