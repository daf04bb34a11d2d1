//! `laststream exec`

use std::ffi::OsString;

use clap::Args;
use laststream_base::causes::Context as _;
use laststream_base::time_span::TimeSpan;
use laststream_gate::Address;
use laststream_gate::exec::{self, End, Plan};

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
    /// A URL that answers 200 when the proxy is ready. May be repeated; one 200 is enough.
    #[arg(long, value_name = "URL", default_values = READY_URLS)]
    ready_url: Vec<Address>,
    /// How long the proxy may take to become ready. After this time the command does not run.
    #[arg(long, value_name = "TIME", default_value = "2m")]
    ready_timeout: TimeSpan,
    /// Runs the command without a proxy if no program has listened at the ready URLs for this long.
    /// Write `--no-proxy-ok=TIME`; without a time it is 10s.
    #[arg(
        long,
        value_name = "TIME",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "10s"
    )]
    no_proxy_ok: Option<TimeSpan>,
    /// How long the gate may be silent before it counts as missing. Without a gate, the program
    /// does not wait for outbound streams.
    #[arg(long, value_name = "TIME", default_value = "3s")]
    gate_timeout: TimeSpan,
    /// How long to wait for outbound streams, and for a gate that refuses, after the command has
    /// ended.
    #[arg(long, value_name = "TIME", default_value = "30s")]
    streams_timeout: TimeSpan,
    /// When to end the proxy. Use `never` for native sidecars, because Kubernetes ends them itself.
    #[arg(long, value_name = "WHEN", value_enum, default_value_t)]
    end_proxy: End,
    /// A URL whose POST ends the proxy. It is used if there is no gate, or after
    /// `--streams-timeout`. The default is Istio's agent.
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

/// Istio's agent: its status port, and its health port.
const READY_URLS: [&str; 2] =
    ["http://127.0.0.1:15020/healthz/ready", "http://127.0.0.1:15021/healthz/ready"];

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

pub(super) fn run(command: &Exec, printer: &Printer) -> Ended {
    let gate = command.gate.gate()?;
    let time = TimeSpan::duration;
    let plan = Plan {
        command: command.command.clone(),
        ready: command.ready_url.clone(),
        ready_timeout: time(command.ready_timeout),
        absent_after: command.no_proxy_ok.map(time),
        gate,
        gate_timeout: time(command.gate_timeout),
        streams_timeout: time(command.streams_timeout),
        end: command.end_proxy,
        quit: command.quit_url.clone(),
        quit_timeout: time(command.quit_timeout),
    };
    let code = exec::run(&plan, printer)
        .context("signals cannot be watched, so the command was not run")?;
    Ok(Exit::Child(code))
}
