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

use crate::gate::{Address, Gate, Http};
use crate::progress::Progress;
use child::Child;
use ending::Ending;
use ready::Ready;
use reaper::Reaper;
use signals::Signals;
use streams::Outbound;

/// What to run, and how long each phase may take.
#[derive(Debug)]
pub struct Plan {
    /// The command and its arguments.
    pub command: Vec<OsString>,
    /// Where the proxy says that it is ready; one 200 is enough.
    pub ready: Vec<Address>,
    /// How long that may take.
    pub ready_timeout: Duration,
    /// If no program has listened there for so long, the command runs without a proxy.
    pub absent_after: Option<Duration>,
    /// Where streams are counted.
    pub gate: Gate,
    /// How long the gate may be silent before it counts as missing.
    pub gate_timeout: Duration,
    /// How long outbound streams are waited for.
    pub streams_timeout: Duration,
    /// Whether the proxy is ended.
    pub end: End,
    /// The URL that ends the proxy if the gate cannot, or not in time.
    pub quit: Address,
    /// How long it may take to end.
    pub quit_timeout: Duration,
}

/// When the proxy is ended.
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

/// The proxy did not become ready.
const NEVER_READY: u8 = 2;

/// What every phase needs.
struct ExecContext<'a> {
    plan: &'a Plan,
    progress: &'a dyn Progress,
    http: Http,
    signals: Signals,
    reaper: Reaper,
}

/// Runs it, and returns the exit code: the command's; 128 and the signal's number when one ended
/// it; 127 when there is no such command, 126 when it cannot be run, 2 when the proxy never became
/// ready.
///
/// # Errors
/// Signals cannot be watched.
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
            finish(&mut stage, NEVER_READY); // a pod whose Job has failed ends, too
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

/// Nothing in here changes the exit code.
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

    /// A pause, in which children are reaped; a signal that would end this process ends it.
    fn pause(&mut self, time: Duration) -> Option<i32> {
        self.signals.pause(time, &mut self.reaper)
    }
}

/// As shells tell of a signal.
fn code_of(signal: i32) -> u8 {
    u8::try_from(signal).map_or(u8::MAX, |signal| 128 | signal)
}
