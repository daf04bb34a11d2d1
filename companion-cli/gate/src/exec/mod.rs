//! Runs a command beside a proxy: waits until the proxy is ready, runs the command as a child,
//! waits until its outbound streams have ended, and ends the proxy. Every phase has a deadline.
//! Errors after the command do not change its exit code.

mod child;
mod ending;
mod ready;
mod reaper;
mod signals;
mod streams;

use std::ffi::OsString;
use std::io;
use std::time::{Duration, Instant};

use crate::{Address, Gate, Http};
use child::Child;
use ending::Ending;
use laststream_base::progress::Progress;
use ready::Ready;
use reaper::Reaper;
use signals::Signals;
use streams::Outbound;

/// The command to run, and the time limit of each phase.
#[derive(Debug)]
pub struct Plan {
    pub command: Vec<OsString>,
    /// The URLs that report whether the proxy is ready; one 200 is enough.
    pub ready: Vec<Address>,
    /// The time limit for the proxy to become ready.
    pub ready_timeout: Duration,
    /// The time after which the command runs without a proxy if no program listens on `ready`.
    pub absent_after: Option<Duration>,
    pub gate: Gate,
    /// The time for which the gate may be silent before it counts as missing.
    pub gate_timeout: Duration,
    /// The time limit for outbound streams to end.
    pub streams_timeout: Duration,
    /// The exit codes of the command after which the proxy is ended.
    pub end: End,
    /// The URL that ends the proxy if the gate cannot, or not in time.
    pub quit: Address,
    /// The time limit for the proxy to end.
    pub quit_timeout: Duration,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum End {
    /// For every exit code of the command.
    #[default]
    Always,
    /// If the command's exit code is 0. For pods that restart failed containers.
    OnSuccess,
    /// Never.
    Never,
}

/// The exit code if the proxy did not become ready.
const NEVER_READY: u8 = 2;

/// The state that all phases share.
struct ExecContext<'a> {
    plan: &'a Plan,
    progress: &'a dyn Progress,
    http: Http,
    signals: Signals,
    reaper: Reaper,
}

/// Runs the plan, and returns the exit code: the command's; 128 plus the signal's number if a
/// signal ended it; 127 if there is no such command, 126 if it cannot be run, 2 if the proxy never
/// became ready.
pub fn run(plan: &Plan, progress: &dyn Progress) -> io::Result<u8> {
    let signals = Signals::watch()?;
    let mut stage =
        ExecContext { plan, progress, http: Http::default(), signals, reaper: Reaper::default() };
    match ready::wait(&mut stage) {
        Ready::Yes => {}
        Ready::Absent => {
            stage.report("there is no proxy: running the command without one");
            return Ok(command(&mut stage));
        }
        Ready::Interrupted(signal) => return Ok(code_of(signal)),
        Ready::Never(why) => {
            stage.report(&format!(
                "the proxy is not ready after {:?}, so the command was not run: {why}",
                plan.ready_timeout
            ));
            finish(&mut stage, NEVER_READY); // so that the pod of a failed Job ends, too
            return Ok(NEVER_READY);
        }
    }
    let code = command(&mut stage);
    finish(&mut stage, code);
    Ok(code)
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
    let is_wanted = match stage.plan.end {
        End::Always => true,
        End::OnSuccess => code == 0,
        End::Never => false,
    };
    if !is_wanted {
        return;
    }
    let until = Instant::now() + stage.plan.streams_timeout;
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
                "not waiting any longer than {:?}: {why}; the proxy is ended",
                stage.plan.streams_timeout
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
        self.progress.started(&format!("laststream exec: {what}"));
    }

    /// Pauses, and reaps children meanwhile. A signal that would end this process ends the pause
    /// instead; its number is returned.
    fn pause(&mut self, time: Duration) -> Option<i32> {
        self.signals.pause(time, &mut self.reaper)
    }
}

/// The exit code that shells give for a process that a signal ended.
fn code_of(signal: i32) -> u8 {
    u8::try_from(signal).map_or(u8::MAX, |signal| 128 | signal)
}
