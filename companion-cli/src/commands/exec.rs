//! `laststream exec`

use std::ffi::OsString;

use clap::{Args, ValueEnum};
use laststream::gate::Address;
use laststream::gate::exec::{self, End, Plan};
use laststream::time_span::TimeSpan;

use crate::commands::exit::Exit;
use crate::commands::gate_args::GateArgs;
use crate::commands::printer::Printer;

/// Runs a command beside a proxy, for Jobs: waits until the proxy is ready, runs the command, waits
/// until the streams that it began have ended, and ends the proxy.
///
/// The command is a child with our input and outputs. It gets every signal that we get, no shell is
/// involved, and its exit code is ours. It does not inherit LASTSTREAM_SECRET and the registry's
/// credentials. Nothing is waited for without end.
#[derive(Debug, Args)]
#[command(after_help = HELP)]
pub(crate) struct Exec {
    #[command(flatten)]
    gate: GateArgs,
    /// Where the proxy says that it is ready; 200 means so. May be given several times, one is
    /// enough.
    #[arg(long, value_name = "URL", default_values = ["http://127.0.0.1:15020/healthz/ready", "http://127.0.0.1:15021/healthz/ready"])]
    ready_url: Vec<Address>,
    /// How long the proxy may take to become ready; the command does not run if it does not.
    #[arg(long, value_name = "TIME", default_value = "2m")]
    ready_timeout: TimeSpan,
    /// Runs the command without a proxy when nobody has listened at the ready URLs for this long.
    #[arg(long, value_name = "TIME", num_args = 0..=1, require_equals = true, default_missing_value = "10s")]
    no_proxy_ok: Option<TimeSpan>,
    /// How long the gate may give no answer before it is taken for missing; then outbound streams
    /// are not waited for.
    #[arg(long, value_name = "TIME", default_value = "3s")]
    gate_timeout: TimeSpan,
    /// How long outbound streams, and a gate that refuses, are waited for after the command has
    /// ended.
    #[arg(long, value_name = "TIME", default_value = "30s")]
    streams_timeout: TimeSpan,
    /// Whether the proxy is ended. Kubernetes ends native sidecars by itself: `never`.
    #[arg(long, value_name = "WHEN", value_enum, default_value_t)]
    end_proxy: EndProxy,
    /// Where a POST ends the proxy when there is no gate, or when the time for its streams is over.
    /// The default is Istio's agent.
    #[arg(long, value_name = "URL", default_value = "http://127.0.0.1:15020/quitquitquit")]
    quit_url: Address,
    /// How long the proxy may take to end.
    #[arg(long, value_name = "TIME", default_value = "5s")]
    quit_timeout: TimeSpan,
    /// The command and its arguments.
    #[arg(
        required = true,
        trailing_var_arg = true,
        allow_hyphen_values = true,
        value_name = "COMMAND"
    )]
    command: Vec<OsString>,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
enum EndProxy {
    /// Whatever the command's exit code is.
    #[default]
    Always,
    /// When the command's exit code is 0: for pods whose containers are started again after a
    /// failure.
    OnSuccess,
    /// Never.
    Never,
}

const HELP: &str = "\
Examples:
  laststream exec -- ./job --rows 1000
  laststream exec --streams-timeout 2m -- ./job
  laststream exec --ready-url http://127.0.0.1:9901/ready --quit-url http://127.0.0.1:9901/quitquitquit -- ./job
  laststream exec --no-proxy-ok -- ./job

Exit codes: the command's own, or 128 and the number of the signal that ended it; 127 there is no such command, 126 it cannot be run, \
2 the proxy was never ready, 64 wrong arguments. What goes wrong after the command has ended is told and does not change the exit code.

A signal that asks to end while nothing runs but the waiting ends the waiting; the proxy is left alone then.";

pub(super) fn run(command: &Exec, printer: &Printer) -> Exit {
    let gate = match command.gate.gate(printer) {
        Ok(gate) => gate,
        Err(exit) => return exit,
    };
    let time = TimeSpan::duration;
    let plan = Plan {
        command: command.command.clone(),
        ready: command.ready_url.clone(),
        ready_timeout: time(command.ready_timeout),
        absent_after: command.no_proxy_ok.map(time),
        gate,
        gate_timeout: time(command.gate_timeout),
        streams_timeout: time(command.streams_timeout),
        end: match command.end_proxy {
            EndProxy::Always => End::Always,
            EndProxy::OnSuccess => End::OnSuccess,
            EndProxy::Never => End::Never,
        },
        quit: command.quit_url.clone(),
        quit_timeout: time(command.quit_timeout),
    };
    match exec::run(&plan, printer) {
        Ok(code) => Exit::Of(code),
        Err(error) => {
            printer
                .error(&format!("signals cannot be watched, so the command was not run: {error}"));
            Exit::Failed
        }
    }
}
