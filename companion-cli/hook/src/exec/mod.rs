//! Runs a command beside a proxy: waits until the proxy is ready, runs the command as a child,
//! waits until its outbound streams have ended, and ends the proxy. Every phase has a deadline.
//! Errors after the command do not change its exit code.

mod child;
mod ending;
mod plan;
mod ready;
mod reaper;
mod signals;
mod streams;

use std::time::{Duration, Instant};

use clap::Args;
use laststream_base::causes::Context as _;
use laststream_gate::GateClient;

use crate::gate_args::GateArgs;
use crate::{Ended, Exit, Printer};
pub(crate) use child::Child;
use ending::Ending;
use plan::{End, Plan};
use ready::Ready;
pub(crate) use reaper::Reaper;
pub(crate) use signals::Signals;
use streams::Outbound;

/// Runs the command of a Job beside a proxy. It waits until the proxy is ready, runs the command,
/// waits until the command's outbound streams have ended, and ends the proxy.
///
/// The command runs as a child process, without a shell, with the same standard input and outputs.
/// It receives the signals that this program receives, and its exit code becomes the exit code of
/// this program. It does not inherit LASTSTREAM_SECRET or the registry's credentials. Every wait
/// has a time-out.
#[derive(Debug, Args)]
#[command(after_help = HELP)]
pub struct Exec {
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

/// The exit code if the proxy did not become ready.
const NEVER_READY: u8 = 2;

/// The state that all phases share.
struct ExecContext<'a> {
    plan: &'a Plan,
    gate: &'a GateClient,
    printer: &'a Printer,
    signals: Signals,
    reaper: Reaper,
}

/// Runs `exec`: the exit code is the command's; 128 plus the signal's number if a signal ended it;
/// 127 if there is no such command, 126 if it cannot be run, 2 if the proxy never became ready.
///
/// # Errors
/// Signals cannot be watched, or the gate's secret cannot be read.
pub fn run(command: &Exec, printer: &Printer) -> Ended {
    let gate = &command.gate.gate()?;
    let signals =
        Signals::watch().context("signals cannot be watched, so the command was not run")?;
    let (plan, reaper) = (&command.plan, Reaper::default());
    Ok(Exit::Child(run_plan(&mut ExecContext { plan, gate, printer, signals, reaper })))
}

fn run_plan(stage: &mut ExecContext<'_>) -> u8 {
    match ready::wait(stage) {
        Ready::Yes => {}
        Ready::Absent => {
            stage.report("there is no proxy: running the command without one");
            return command(stage);
        }
        Ready::Interrupted(signal) => return code_of(signal),
        Ready::Never(why) => {
            stage.report(&format!(
                "the proxy is not ready after {:?}, so the command was not run: {why}",
                stage.plan.ready_timeout.duration()
            ));
            finish(stage, NEVER_READY); // so that the pod of a failed Job ends, too
            return NEVER_READY;
        }
    }
    let code = command(stage);
    finish(stage, code);
    code
}

fn command(stage: &mut ExecContext<'_>) -> u8 {
    match Child::start(&stage.plan.command) {
        Ok(child) => child.wait(&stage.signals, &mut stage.reaper),
        Err(failed) => {
            stage.report(&failed.to_string());
            failed.code()
        }
    }
}

/// Waits for streams and ends the proxy, as the plan says. Nothing in here changes the exit code.
fn finish(stage: &mut ExecContext<'_>, code: u8) {
    let is_wanted = match stage.plan.end_proxy {
        End::Always => true,
        End::OnSuccess => code == 0,
        End::Never => false,
    };
    if !is_wanted {
        return;
    }
    let streams_timeout = stage.plan.streams_timeout.duration();
    let until = Instant::now() + streams_timeout;
    match streams::wait(stage, until) {
        Outbound::Zero => {}
        Outbound::Gone => {
            return stage
                .report("no program listens where the proxy should be: there is nothing to end");
        }
        Outbound::Interrupted(why) => {
            return stage.report(&format!("asked to end, so the proxy keeps running: {why}"));
        }
        Outbound::Unknown(why) => {
            stage.report(&format!("outbound streams are not waited for: {why}"))
        }
        Outbound::Left(why) => {
            stage.report(&format!(
                "not waiting any longer than {streams_timeout:?}: {why}; the proxy is ended"
            ));
        }
    }
    match ending::end(stage, until) {
        Ending::Done => {}
        Ending::Interrupted => {
            stage.report("asked to end, so the end of the proxy is not waited for")
        }
        Ending::Failed(why) => stage.report(&format!("the proxy was not ended: {why}")),
    }
}

impl ExecContext<'_> {
    fn report(&self, what: &str) {
        self.printer.status_line(&format!("laststream exec: {what}"));
    }

    /// Pauses, and reaps children meanwhile. A signal that would end this process ends the pause
    /// instead; its number is returned.
    fn pause(&mut self, time: Duration) -> Option<i32> {
        self.signals.pause(time, &mut self.reaper)
    }
}

/// The exit code that shells give for a process that a signal ended.
pub(crate) fn code_of(signal: i32) -> u8 {
    u8::try_from(signal).map_or(u8::MAX, |signal| 128 | signal)
}
