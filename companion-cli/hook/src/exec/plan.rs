//! The options of `exec`.

use std::ffi::OsString;

use clap::{Args, ValueEnum};
use laststream_base::time_span::TimeSpan;
use laststream_gate::Address;

/// The command to run, and the time limit of each phase.
#[derive(Debug, Args)]
pub(super) struct Plan {
    /// A URL that answers 200 when the proxy is ready. May be repeated; one 200 is enough.
    #[arg(long, value_name = "URL", default_values = READY_URLS)]
    pub(super) ready_url: Vec<Address>,
    /// How long the proxy may take to become ready. After this time the command does not run.
    #[arg(long, value_name = "TIME", default_value = "2m")]
    pub(super) ready_timeout: TimeSpan,
    /// Runs the command without a proxy if no program has listened at the ready URLs for this long.
    /// Write `--no-proxy-ok=TIME`; without a time it is 10s.
    #[arg(
        long,
        value_name = "TIME",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "10s"
    )]
    pub(super) no_proxy_ok: Option<TimeSpan>,
    /// How long the gate may be silent before it counts as missing. Without a gate, the program
    /// does not wait for outbound streams.
    #[arg(long, value_name = "TIME", default_value = "3s")]
    pub(super) gate_timeout: TimeSpan,
    /// How long to wait for outbound streams, and for a gate that refuses, after the command has
    /// ended.
    #[arg(long, value_name = "TIME", default_value = "30s")]
    pub(super) streams_timeout: TimeSpan,
    /// When to end the proxy. Use `never` for native sidecars, because Kubernetes ends them itself.
    #[arg(long, value_name = "WHEN", value_enum, default_value_t)]
    pub(super) end_proxy: End,
    /// A URL whose POST ends the proxy. It is used if there is no gate, or after
    /// `--streams-timeout`. The default is Istio's agent.
    #[arg(long, value_name = "URL", default_value = "http://127.0.0.1:15020/quitquitquit")]
    pub(super) quit_url: Address,
    /// How long the proxy may take to end.
    #[arg(long, value_name = "TIME", default_value = "5s")]
    pub(super) quit_timeout: TimeSpan,
    /// The command and its arguments.
    #[arg(
        required = true,
        trailing_var_arg = true,
        allow_hyphen_values = true,
        value_name = "COMMAND"
    )]
    pub(super) command: Vec<OsString>,
}

/// Istio's agent: its status port, and its health port.
const READY_URLS: [&str; 2] =
    ["http://127.0.0.1:15020/healthz/ready", "http://127.0.0.1:15021/healthz/ready"];

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub(super) enum End {
    /// For every exit code of the command.
    #[default]
    Always,
    /// If the command's exit code is 0. For pods that restart failed containers.
    OnSuccess,
    /// Never.
    Never,
}
