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
use clap::{Args, ValueEnum};
use ending::Ending;
use laststream_base::progress::Progress;
use laststream_base::time_span::TimeSpan;
use ready::Ready;
use reaper::Reaper;
use signals::Signals;
use streams::Outbound;

/// The command to run, and the time limit of each phase.
#[derive(Debug, Args)]
pub struct Plan {
    /// A URL that answers 200 when the proxy is ready. May be repeated; one 200 is enough.
    #[arg(long, value_name = "URL", default_values = READY_URLS)]
    pub ready_url: Vec<Address>,
    /// How long the proxy may take to become ready. After this time the command does not run.
    #[arg(long, value_name = "TIME", default_value = "2m")]
    pub ready_timeout: TimeSpan,
    /// Runs the command without a proxy if no program has listened at the ready URLs for this long.
    /// Write `--no-proxy-ok=TIME`; without a time it is 10s.
    #[arg(
        long,
        value_name = "TIME",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "10s"
    )]
    pub no_proxy_ok: Option<TimeSpan>,
    /// How long the gate may be silent before it counts as missing. Without a gate, the program
    /// does not wait for outbound streams.
    #[arg(long, value_name = "TIME", default_value = "3s")]
    pub gate_timeout: TimeSpan,
    /// How long to wait for outbound streams, and for a gate that refuses, after the command has
    /// ended.
    #[arg(long, value_name = "TIME", default_value = "30s")]
    pub streams_timeout: TimeSpan,
    /// When to end the proxy. Use `never` for native sidecars, because Kubernetes ends them itself.
    #[arg(long, value_name = "WHEN", value_enum, default_value_t)]
    pub end_proxy: End,
    /// A URL whose POST ends the proxy. It is used if there is no gate, or after
    /// `--streams-timeout`. The default is Istio's agent.
    #[arg(long, value_name = "URL", default_value = "http://127.0.0.1:15020/quitquitquit")]
    pub quit_url: Address,
    /// How long the proxy may take to end.
    #[arg(long, value_name = "TIME", default_value = "5s")]
    pub quit_timeout: TimeSpan,
    /// The command and its arguments.
    #[arg(
        required = true,
        trailing_var_arg = true,
        allow_hyphen_values = true,
        value_name = "COMMAND"
    )]
    pub command: Vec<OsString>,
}

/// Istio's agent: its status port, and its health port.
const READY_URLS: [&str; 2] =
    ["http://127.0.0.1:15020/healthz/ready", "http://127.0.0.1:15021/healthz/ready"];

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
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
    gate: &'a Gate,
    progress: &'a dyn Progress,
    http: Http,
    signals: Signals,
    reaper: Reaper,
}

/// Runs the plan, and returns the exit code: the command's; 128 plus the signal's number if a
/// signal ended it; 127 if there is no such command, 126 if it cannot be run, 2 if the proxy never
/// became ready.
pub fn run(plan: &Plan, gate: &Gate, progress: &dyn Progress) -> io::Result<u8> {
    let signals = Signals::watch()?;
    let (http, reaper) = (Http::default(), Reaper::default());
    let mut stage = ExecContext { plan, gate, progress, http, signals, reaper };
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
                plan.ready_timeout.duration()
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
