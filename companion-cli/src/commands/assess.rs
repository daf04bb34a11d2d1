//! `laststream assess …`

use std::collections::HashMap;
use std::path::PathBuf;

use clap::{Args, ValueEnum};
use laststream_assess::{Assessment, Row, TITLES, cells, markdown};
use laststream_base::time_span::TimeSpan;
use laststream_base::versions::{self, Release};
use laststream_fleet::Ports;
use laststream_gate::text::columns;
use laststream_lint::cluster::{Judged, Snapshot};
use laststream_lint::{self as lint, Assume, Finding};

use crate::args::scan::ScanArgs;
use crate::commands::lint::gather;
use crate::commands::pods::block_on;
use crate::commands::scanned::scan;
use crate::commands::{Ended, Exit, Failure, Printer, fit, misused};

/// Says of each workload with a proxy what its next stop cuts: what ends the proxy and when, the
/// longest request that survives, and whether laststream helps.
///
/// Nothing of laststream needs to be there. All files are read together, because a namespace, the
/// settings of the mesh or a patch may be in another file. Folders are searched for .yaml, .yml and
/// .json. The values of Istio's gateway chart, in files or in objects of Flux and Argo CD, are
/// workloads, too. What the files do not show is not guessed: a time with `*` holds if the mesh has
/// Istio's defaults, and `≥` is a least time.
///
/// With `--cluster` the objects of the API server are read, and how many pods each workload has.
/// The grace period is the shortest of its running pods. No pod is asked.
///
/// With `--policy` as well: whether that cluster takes what the policy is rendered to. The API
/// server judges each object in a dry run, with its webhooks and admission policies, and stores
/// nothing. The answer names who denies what, and what to write instead.
///
/// Exit codes: 0 success, 1 a request as long as `--fail-on` says is lost, or an object is not
/// surely taken, 2 a file could not be read or the API server cannot be asked, 64 wrong arguments.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Assess {
    /// Files and folders; `-` for standard input.
    #[arg(value_name = "FILE", required_unless_present = "cluster")]
    files: Vec<PathBuf>,
    #[command(flatten)]
    scan: ScanArgs,
    /// The format of the result. `json` is described in docs/assess.md.
    #[arg(short, long, value_name = "FORMAT", value_enum, default_value_t)]
    output: Format,
    /// Ends with 1 if a workload loses a request that takes so long. A workload whose time is not
    /// known does not count.
    #[arg(long, value_name = "lost=TIME", value_parser = lost)]
    fail_on: Option<TimeSpan>,
    /// A policy file for `laststream render`.
    #[arg(long, value_name = "FILE", requires = "cluster",
        conflicts_with_all = ["fail_on", "istio", "kubernetes", "all_namespaces", "selector"])]
    policy: Option<PathBuf>,
    /// The version of Istio, which decides whether sidecars are native.
    #[arg(long, value_name = "VERSION", value_parser = versions::release)]
    istio: Option<Release>,
    /// The version of Kubernetes, which decides it, too.
    #[arg(long, value_name = "VERSION", value_parser = versions::release)]
    kubernetes: Option<Release>,
}

const EXAMPLES: &str = "Examples:
  laststream assess mesh/
  kubectl kustomize overlays/prod | laststream assess --istio 1.31 -
  helm template edge istio/gateway | laststream assess -
  laststream assess mesh/ --fail-on lost=10s
  laststream assess mesh/ -o markdown > ticket.md
  laststream assess --cluster -A
  laststream assess --cluster --policy policy.yaml";

/// How many files that cannot be read are named.
const MOST_NAMED: usize = 5;

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
enum Format {
    /// A table for a terminal.
    #[default]
    Text,
    /// A table for a ticket.
    Markdown,
    /// JSON.
    Json,
}

fn lost(text: &str) -> Result<TimeSpan, String> {
    let time = text.strip_prefix("lost=").ok_or("write it as `lost=10s`")?;
    time.parse().map_err(|wanted| format!("`{time}` is not {wanted}"))
}

impl Assess {
    /// Whether the exit code is a verdict.
    pub(crate) fn is_check(&self) -> bool {
        self.fail_on.is_some() || self.policy.is_some()
    }
}

pub(crate) fn run(command: &Assess, printer: &Printer) -> Ended {
    if let Some(policy) = &command.policy {
        if command.output == Format::Markdown {
            return Err(misused("with `--policy` the formats are `text` and `json`"));
        }
        return fit::run(policy, &command.scan, command.output == Format::Json, printer);
    }
    let assessment = read(command, printer)?;
    match command.output {
        Format::Text if assessment.rows.is_empty() => {}
        Format::Text => printer.stdout(&text(&assessment)),
        Format::Markdown => printer.stdout(&markdown(&assessment)),
        Format::Json => printer.value(&assessment.json()),
    }
    printer.status_line(&assessment.summary());
    let limit = command.fail_on.map(TimeSpan::millis);
    let is_lost = limit.is_some_and(|limit| assessment.losing(limit).next().is_some());
    Ok(if is_lost { Exit::Negative } else { Exit::Fine })
}

fn read(command: &Assess, printer: &Printer) -> Result<Assessment, Failure> {
    let Assess { files, scan, istio, kubernetes, .. } = command;
    let assume = Assume { istio: *istio, kubernetes: *kubernetes, ..Assume::default() };
    if scan.is_given() {
        return block_on(of_cluster(scan, &assume, printer));
    }
    if *scan != ScanArgs::default() {
        return Err(misused("the options for a cluster need `--cluster`"));
    }
    let (assessment, mut unread) = lint::assess(gather(files)?, assume)?;
    unread.dedup_by(|one, two| one.file == two.file);
    for Finding { file, line, message, .. } in unread.iter().take(MOST_NAMED) {
        printer.warning(&format!("cannot read {file}, line {line}: {message}"));
    }
    if unread.len() > MOST_NAMED {
        let more = unread.len() - MOST_NAMED;
        printer.warning(&format!("and {more} more, which `laststream lint` shows"));
    }
    if assessment.rows.is_empty() && !unread.is_empty() {
        return Err(Failure::from("no workload with a proxy is in what could be read".to_owned()));
    }
    Ok(assessment)
}

/// Reads what `lint --cluster` reads, without a question to any gate.
async fn of_cluster(
    arguments: &ScanArgs,
    assume: &Assume,
    printer: &Printer,
) -> Result<Assessment, Failure> {
    let scanned = scan(arguments, Ports::default()).await?;
    scanned.refused.iter().for_each(|error| printer.warning(error));
    let is_narrowed = arguments.selector.is_some();
    let (objects, running) = (scanned.objects, scanned.running);
    let snapshot = Snapshot::of(objects, running, HashMap::new(), Vec::new(), is_narrowed);
    Ok(snapshot.judge(assume, Judged::ForStops)?.assessment)
}

/// The table, and below it the reason and the next step for each group of workloads.
fn text(assessment: &Assessment) -> String {
    let rows: Vec<_> = assessment.rows.iter().map(short_cells).collect();
    let column = |index: usize| rows.iter().map(|cells| cells[index].clone()).collect();
    let table = columns((0..TITLES.len()).map(|index| (TITLES[index], column(index))).collect());
    format!("{table}\n{}\n", assessment.steps().join("\n"))
}

/// The cells of a row; the reason of the verdict is below the table.
fn short_cells(row: &Row) -> [String; TITLES.len()] {
    let mut cells = cells(row);
    if let Some(last) = cells.last_mut() {
        row.stop.verdict.name().clone_into(last);
    }
    cells
}
