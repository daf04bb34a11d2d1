//! `laststream size`

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use laststream::base::foreign;
use laststream::base::time_span::TimeSpan;
use laststream::size::files::{Known, unit};
use laststream::size::prometheus::{Query, is_address, measure};
use laststream::size::report::Report;
use laststream::size::{Fleet, Lifetimes, Load, Strategy};

use crate::commands::exit::Exit;
use crate::commands::input;
use crate::commands::output::Output;
use crate::commands::printer::Printer;

/// Proposes deadline, grace period and quiet period from how long streams last, and predicts what a
/// rollout cuts, holds and takes.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Size {
    /// Answers of `GET /streams`, or metrics in Prometheus' text form; `-` for standard input.
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
    /// The number of pods. By default those that Prometheus sees, or the number of listings.
    #[arg(
        long,
        value_name = "COUNT",
        value_parser = clap::value_parser!(u32).range(1..=i64::from(MOST_PODS))
    )]
    pods: Option<u32>,
    /// Streams in flight per pod, in place of what was measured.
    #[arg(long, value_name = "COUNT", value_parser = in_flight)]
    in_flight: Option<f64>,
    /// How long a new pod takes until it is ready.
    #[arg(long, value_name = "TIME", default_value = "15s")]
    startup: TimeSpan,
    /// How the workload replaces its pods.
    #[arg(long, value_enum, default_value_t)]
    kind: Kind,
    /// `maxSurge` of a Deployment: pods, or a share such as `25%`.
    #[arg(long, value_name = "PODS", default_value = "25%")]
    surge: Pods,
    /// `maxUnavailable`: pods, or a share such as `25%`. For a StatefulSet and a DaemonSet at least
    /// one.
    #[arg(long, value_name = "PODS")]
    unavailable: Option<Pods>,
    /// How long Istio's agent drains after the deadline; `0s` without Istio.
    #[arg(long, value_name = "TIME", default_value = "5s")]
    agent: TimeSpan,
    /// How long the gate waits, after the drain has begun, before it tells Envoy to drain.
    #[arg(long, value_name = "TIME", default_value = "0s")]
    delay: TimeSpan,
    /// The format of the result.
    #[arg(short, long, value_name = "FORMAT", value_enum, default_value_t)]
    output: Output,
}

const EXAMPLES: &str = "\
Examples:
  laststream size --prometheus http://127.0.0.1:9090 --selector 'namespace=\"shop\"'
  laststream size --prometheus http://127.0.0.1:9090 --pods 400 --startup 30s --cut 1
  laststream streams -o json --limit 100 > streams.json; laststream size streams.json
  curl POD:15090/stats/prometheus > stats.txt; laststream size stats.txt --in-flight 20 --pods 3
  laststream size streams.json --kind statefulset --pods 12 -o json";

/// The kind of workload.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
enum Kind {
    /// Old pods drain while new ones start.
    #[default]
    Deployment,
    /// A pod is gone before its successor starts.
    #[value(name = "statefulset")]
    StatefulSet,
    /// The same, one pod on each node.
    #[value(name = "daemonset")]
    DaemonSet,
}

/// A number of pods, or a share of them in percent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Pods {
    Number(u32),
    Percent(u32),
}

impl std::str::FromStr for Pods {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let percent = text.strip_suffix('%');
        let number = percent.unwrap_or(text).parse();
        let number =
            number.map_err(|_| "is neither a number nor a share such as `25%`".to_owned())?;
        match percent {
            Some(_) if number > 100 => Err("is more than 100%".to_owned()),
            Some(_) => Ok(Self::Percent(number)),
            None => Ok(Self::Number(number)),
        }
    }
}

impl Pods {
    /// Kubernetes rounds `maxSurge` up and `maxUnavailable` down.
    fn of(self, pods: u32, rounds_up: bool) -> u32 {
        let share = |percent: u32| {
            let all = u64::from(pods) * u64::from(percent);
            let part = if rounds_up { all.div_ceil(100) } else { all / 100 };
            u32::try_from(part).unwrap_or(pods)
        };
        match self {
            Self::Number(number) => number.min(pods),
            Self::Percent(percent) => share(percent),
        }
    }
}

fn in_flight(text: &str) -> Result<f64, &'static str> {
    const WANTED: &str = "is not a number of streams from 0 to 1000000";
    text.parse().ok().filter(|count| (0.0..=1e6).contains(count)).ok_or(WANTED)
}

/// A limit above the size of every cluster.
const MOST_PODS: u32 = 1_000_000;
/// The limit for a file in bytes, because files of metrics may be large.
const LONGEST: u64 = 256 << 20;

pub(super) fn run(command: &Size, printer: &Printer) -> Exit {
    if let Err(problem) = check(command) {
        return printer.misused(&problem);
    }
    match report(command) {
        Ok(report) => {
            let json = format!("{:#}", report.json());
            printer.result(command.output, &json, &report.text());
            report.warnings.iter().for_each(|warning| printer.warning(warning));
            Exit::Fine
        }
        Err(problem) => printer.failed(&problem),
    }
}

/// Checks the arguments alone. The error does not repeat an address, because it may hold a
/// password.
fn check(command: &Size) -> Result<(), String> {
    if !(0.0..100.0).contains(&command.cut) {
        return Err(format!("--cut: `{}` is not from 0 to 100", command.cut));
    }
    if command.prometheus.as_ref().is_some_and(|url| !is_address(url)) {
        let wanted = "write the address as `http://HOST:PORT`, without a user in it";
        return Err(format!("--prometheus: {wanted}"));
    }
    match command.metric.as_deref().map(unit) {
        Some(Err(error)) => Err(format!("--metric: {error}")),
        _ => Ok(()),
    }
}

/// The measured streams.
struct Streams {
    load: Load,
    pods: u32,
    /// The source of the numbers.
    source: String,
    /// Reasons why the numbers may be wrong.
    warnings: Vec<String>,
}

fn report(command: &Size) -> Result<Report, String> {
    let Streams { load, pods, source, warnings } = match &command.prometheus {
        Some(url) => from_prometheus(command, url)?,
        None => from_files(command)?,
    };
    if pods > MOST_PODS {
        return Err(format!(
            "there are {pods} pods, more than {MOST_PODS}: name those that are meant with \
             `--selector`, or write `--pods COUNT`"
        ));
    }
    let plan = load.plan(command.cut / 100.0, command.delay, command.agent);
    let fleet = Fleet {
        pods,
        startup: command.startup.duration().as_secs_f64(),
        strategy: strategy(command, pods),
    };
    let prediction = load.predict(&plan.sizing, &fleet);
    Ok(Report { source, warnings, load, plan, fleet, prediction })
}

fn strategy(command: &Size, pods: u32) -> Strategy {
    match command.kind {
        Kind::Deployment => {
            let unavailable = command.unavailable.unwrap_or(Pods::Percent(25));
            let (surge, unavailable) = (command.surge.of(pods, true), unavailable.of(pods, false));
            Strategy::Deployment { surge, unavailable }
        }
        Kind::StatefulSet | Kind::DaemonSet => {
            let pods = command.unavailable.map_or(1, |unavailable| unavailable.of(pods, false));
            Strategy::InPlace { pods: pods.max(1) }
        }
    }
}

fn from_prometheus(command: &Size, url: &str) -> Result<Streams, String> {
    let token = command.token_file.as_deref().map(|file| {
        let bytes = foreign::read_named(file, 64 << 10);
        let bytes = bytes.map_err(|error| format!("cannot read `{}`: {error}", file.display()))?;
        String::from_utf8(bytes).map_err(|_| format!("`{}` is no text", file.display()))
    });
    let token = token.transpose()?;
    let query = Query {
        url,
        token: token.as_deref().map(str::trim),
        metric: command.metric.as_deref(),
        selector: &command.selector,
        window: command.window,
    };
    let measured = measure(&query)?;
    let pods = command.pods.or(measured.pods.filter(|pods| *pods > 0)).ok_or(NO_PODS)?;
    let covered = measured.covered.duration().as_secs_f64();
    let rate = measured.durations.total / covered / f64::from(pods);
    // Streams in flight are those that begin in a second, times their mean duration in seconds.
    let from_rate = rate * measured.durations.mean();
    let gauge = measured.in_flight.map(|streams| streams / f64::from(pods));
    let load = Load {
        in_flight: command.in_flight.or(gauge).unwrap_or(from_rate),
        per_second: Some(rate),
        lifetimes: Lifetimes::of_durations(&measured.durations),
    };
    let lacks = match measured.covered {
        covered if covered == command.window => String::new(),
        covered => format!(", of which Prometheus has {covered}"),
    };
    let source = format!("`{}` of the last {}{lacks}", measured.metric, command.window);
    Ok(Streams { load, pods, source, warnings: measured.warnings })
}

const NO_PODS: &str = "nothing says how many pods there are: write `--pods COUNT`";

fn from_files(command: &Size) -> Result<Streams, String> {
    let mut known = Known::default();
    for file in &command.files {
        let name = file.display();
        let bytes = input::read(file, LONGEST);
        let bytes = bytes.map_err(|error| format!("cannot read `{name}`: {error}"))?;
        let text = String::from_utf8_lossy(&bytes);
        known.add(&text, command.metric.as_deref()).map_err(|error| format!("`{name}` {error}"))?;
    }
    let Some(lifetimes) = known.lifetimes() else {
        return Err("there is no stream in these files, so nothing follows from them".to_owned());
    };
    let listings = known.listings;
    let in_flight = (listings > 0).then(|| known.in_flight / f64::from(listings));
    let in_flight = command.in_flight.or(in_flight).ok_or(
        "a histogram does not say how many streams are in flight: write `--in-flight COUNT`, or \
            add answers of `GET /streams`",
    )?;
    let pods = command.pods.or(Some(listings).filter(|listings| *listings > 0)).ok_or(NO_PODS)?;
    let load = Load { in_flight, per_second: None, lifetimes };
    let source = if command.files.len() == 1 {
        "1 file".to_owned()
    } else {
        format!("{} files", command.files.len())
    };
    Ok(Streams { load, pods, source: source + &known.lacks(), warnings: Vec::new() })
}
