//! `laststream status` over many pods.

use std::time::Duration;

use clap::Args;
use laststream_base::time_span::TimeSpan;
use laststream_fleet::table::{self, Width};
use laststream_fleet::{AskOptions, GateQuery, Need, PodReport, Survey, summary};

use super::{block_on, ending};
use crate::args::pods::FleetArgs;
use crate::commands::{Ended, Exit, FleetOutput, Printer};
use crate::screen::{Screen, can_redraw};

#[derive(Debug, Args)]
pub(crate) struct StatusArgs {
    #[command(flatten)]
    pub(crate) fleet: FleetArgs,
    /// Repeats until the gate is open. A terminal is updated in place. Otherwise, and with
    /// NO_COLOR, each result is a line.
    #[arg(short, long)]
    pub(crate) watch: bool,
    /// The time between two requests, with `--watch`.
    #[arg(long, value_name = "TIME", default_value = "1s", requires = "watch")]
    pub(crate) interval: TimeSpan,
    /// Asks every gate itself, through a port-forward, instead of only those that drain: for
    /// versions, and for counts that are not older than the question.
    #[arg(long, help_heading = "Cluster")]
    pub(crate) every_gate: bool,
    /// The format of the result. `json` prints the body of the gate's response, or one object with
    /// `pods`.
    #[arg(short, long, value_name = "FORMAT", value_enum, default_value = "text")]
    pub(crate) output: FleetOutput,
}

/// The shortest interval, because each look costs the API server a request for each pod.
const SHORTEST: Duration = Duration::from_secs(1);

pub(crate) fn run(options: &StatusArgs, printer: &Printer) -> Ended {
    block_on(async {
        let cluster = options.fleet.connect().await?;
        // A question about a node is about what would hold its pods, which only gates know.
        let is_every = options.every_gate || options.fleet.node.is_some();
        let query = if is_every { GateQuery::First } else { GateQuery::IfUnknown(Need::State) };
        let ask = AskOptions { query, ..options.fleet.ask_options() };
        let mut screen = Screen::new("`-l` or a larger terminal");
        let mut has_answered = false;
        loop {
            let survey = options.fleet.survey(&cluster, ask).await;
            let exit = match survey {
                Ok(survey) => {
                    has_answered = true;
                    show(options, &survey, &mut screen, printer);
                    ending(&survey, &cluster, printer)
                }
                Err(error) if !options.watch || error.ends_watch(has_answered) => {
                    return Err(error);
                }
                Err(error) => {
                    printer.warning(&error);
                    Exit::Negative
                }
            };
            if !options.watch {
                return Ok(exit);
            }
            if exit != Exit::Fine {
                screen.forget(); // a message stands below the table
            }
            tokio::time::sleep(options.interval.duration().max(SHORTEST)).await;
        }
    })
}

fn show(options: &StatusArgs, survey: &Survey, screen: &mut Screen, printer: &Printer) {
    let reports: Vec<PodReport> =
        survey.pods.iter().map(|(pod, answer)| PodReport::of(pod, answer)).collect();
    if options.output == FleetOutput::Json {
        return printer.value(&serde_json::json!({
            "pods": reports, "without_proxy": survey.without_proxy,
        }));
    }
    let width = Width {
        namespaces: options.fleet.is_everywhere(),
        wide: options.output == FleetOutput::Wide,
        deletion: options.fleet.node.is_some(),
    };
    let (text, last) = (table::pods(&reports, width), last_line(&reports, survey.without_proxy));
    if options.watch && can_redraw(&std::io::stdout()) {
        return screen.draw(&text, Some(&last), printer);
    }
    if !reports.is_empty() {
        printer.stdout(&text);
    }
    printer.status_line(&last);
}

fn last_line(reports: &[PodReport], without_proxy: usize) -> String {
    let summary = summary(reports);
    if without_proxy == 0 { summary } else { format!("{summary}; {without_proxy} without a proxy") }
}
