//! `laststream size`

use std::path::PathBuf;

use clap::Args;
use laststream_base::causes::Context as _;
use laststream_base::foreign;
use laststream_base::time_span::TimeSpan;
use laststream_fleet::durations::prometheus::{Query, is_address};
use laststream_fleet::durations::{Measured, page, unit};
use laststream_gate::text::many;
use laststream_policy::{Sizing, drain_sizing};
use serde_json::{Value, json};

use crate::commands::{Ended, Exit, Output, Printer, misused};
use crate::input;

/// Proposes the longest request, deadline and grace period from how long requests last.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Size {
    /// Pages of statistics of proxies, in Prometheus' text form; `-` for standard input.
    #[arg(value_name = "FILE", required_unless_present = "prometheus")]
    files: Vec<PathBuf>,
    /// A Prometheus that has the durations of requests.
    #[arg(long, value_name = "URL", conflicts_with = "files")]
    prometheus: Option<String>,
    /// A file with the bearer token for Prometheus.
    #[arg(long, value_name = "FILE", requires = "prometheus")]
    token_file: Option<PathBuf>,
    /// The histogram of durations, without `_bucket`. By default Istio's, or else Envoy's.
    #[arg(long, value_name = "NAME")]
    metric: Option<String>,
    /// Labels of the series in Prometheus, such as `namespace="shop"`.
    #[arg(long, value_name = "LABELS", default_value = "", requires = "prometheus")]
    selector: String,
    /// How far back Prometheus looks.
    #[arg(long, value_name = "TIME", default_value = "24h", requires = "prometheus")]
    window: TimeSpan,
    /// The share of the streams in flight at a stop that may be cut, in percent.
    #[arg(long, value_name = "PERCENT", default_value_t = 0.1)]
    cut: f64,
    /// How long Istio's agent lives after the gate's deadline; `5s` with a stop hook, `0s` without
    /// Istio.
    #[arg(long, value_name = "TIME", default_value = "3s")]
    agent: TimeSpan,
    /// How long the gate waits, after the drain has begun, before it tells Envoy to drain.
    #[arg(long, value_name = "TIME", default_value = "0s")]
    delay: TimeSpan,
    /// The format of the result. `json` prints one object: `source`, `requests`, `warnings`,
    /// `longest_request_ms`, `deadline_ms`, `grace_period_ms` and `drain_duration_ms`.
    #[arg(short, long, value_name = "FORMAT", value_enum, default_value_t)]
    output: Output,
}

const EXAMPLES: &str = "\
Examples:
  laststream size --prometheus http://127.0.0.1:9090 --selector 'namespace=\"shop\"'
  laststream size --prometheus http://127.0.0.1:9090 --window 6h --cut 1
  curl POD:15090/stats/prometheus > stats.txt; laststream size stats.txt
  laststream size stats.txt --agent 0s --delay 10s -o json";

/// The limit for a file in bytes, because pages of statistics may be large.
const LONGEST: u64 = 256 << 20;
/// The quiet period of a policy that names none.
const QUIET: TimeSpan = TimeSpan::seconds(1);

pub(crate) fn run(command: &Size, printer: &Printer) -> Ended {
    check(command).map_err(misused)?;
    let proposal = propose(command)?;
    printer.result(command.output, &proposal.json(), &proposal.text());
    proposal.warnings.iter().for_each(|warning| printer.warning(warning));
    Ok(Exit::Fine)
}

/// Checks the arguments alone. The error does not repeat an address, because it may hold a
/// password.
fn check(command: &Size) -> Result<(), String> {
    if !(0.0..100.0).contains(&command.cut) {
        return Err(format!("--cut: `{}` is not from 0 to 100", command.cut));
    }
    if command.prometheus.as_ref().is_some_and(|url| !is_address(url)) {
        let hint = "write the address as `http://HOST:PORT`, without a user in it";
        return Err(format!("--prometheus: {hint}"));
    }
    match command.metric.as_deref().map(unit) {
        Some(Err(error)) => Err(format!("--metric: {error}")),
        _ => Ok(()),
    }
}

fn from_prometheus(command: &Size, url: &str) -> Result<Measured, String> {
    let token = command.token_file.as_deref().map(|file| {
        let bytes = foreign::read_named(file, 64 << 10);
        let bytes = bytes.context(format_args!("cannot read `{}`", file.display()))?;
        String::from_utf8(bytes).map_err(|_| format!("`{}` is not UTF-8", file.display()))
    });
    let token = token.transpose()?;
    let query = Query {
        url,
        token: token.as_deref().map(str::trim),
        metric: command.metric.as_deref(),
        selector: &command.selector,
        window: command.window,
    };
    query.measure()
}

const NOTHING: &str = "there is no histogram of durations \
    (`istio_request_duration_milliseconds`, `envoy_http_downstream_rq_time`) with a request in \
    these files: save `curl POD:15090/stats/prometheus`";

fn from_files(command: &Size) -> Result<Measured, String> {
    let read = |file: &PathBuf| {
        Ok::<_, String>(String::from_utf8_lossy(&input::read(file, LONGEST)?).into_owned())
    };
    let pages = command.files.iter().map(read).collect::<Result<Vec<_>, _>>()?;
    let durations = page::durations(&pages, command.metric.as_deref()).ok_or(NOTHING)?;
    let files: Vec<_> = command.files.iter().map(|file| format!("`{}`", file.display())).collect();
    Ok(Measured { durations, source: files.join(", "), warnings: Vec::new() })
}

/// Fewer requests than this say little about the longest one.
const FEW: u64 = 1_000;

/// The proposed times.
struct Proposal {
    sizing: Sizing,
    requests: u64,
    source: String,
    warnings: Vec<String>,
}

fn propose(command: &Size) -> Result<Proposal, String> {
    let mut measured = match &command.prometheus {
        Some(url) => from_prometheus(command, url)?,
        None => from_files(command)?,
    };
    let longest = measured.longest_request(command.cut / 100.0);
    let sizing = drain_sizing(longest, QUIET, command.delay, command.agent);
    let Measured { source, mut warnings, durations } = measured;
    let requests = durations.requests();
    if requests < FEW {
        let message = "a rare long one may be missing: measure for longer, or more pods";
        warnings.push(format!("{} are few: {message}", many(requests, "request")));
    }
    Ok(Proposal { sizing, requests, source, warnings })
}

impl Proposal {
    fn text(&self) -> String {
        let Sizing { longest_request, deadline, grace_period, .. } = self.sizing;
        format!(
            "proposal for the policy, from {} with {}\n  drain: {{longest_request: \
             {longest_request}}}\n\
             what follows from it\n  deadline         {deadline}\n  grace period     \
             {grace_period}\n  drainDuration    {}",
            self.source,
            many(self.requests, "request"),
            self.sizing.drain_time()
        )
    }

    fn json(&self) -> Value {
        let sizing = &self.sizing;
        json!({
            "source": self.source,
            "requests": self.requests,
            "warnings": self.warnings,
            "longest_request_ms": sizing.longest_request.millis(),
            "deadline_ms": sizing.deadline.millis(),
            "grace_period_ms": sizing.grace_period.millis(),
            "drain_duration_ms": sizing.drain_time().millis(),
        })
    }
}
