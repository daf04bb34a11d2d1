//! `laststream status` over many pods.

use std::time::Duration;

use laststream_fleet::table::{self, Width};
use laststream_fleet::{AskOptions, GateQuery, Need, PodReport, Survey, summary};

use super::{block_on, ending};
use crate::commands::status::Status;
use crate::commands::{Ended, Exit, FleetOutput, Printer};
use crate::screen::{Screen, can_redraw};

/// The shortest interval, because each look costs the API server a request for each pod.
const SHORTEST: Duration = Duration::from_secs(1);

pub(in crate::commands) fn run(options: &Status, printer: &Printer) -> Ended {
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

fn show(options: &Status, survey: &Survey, screen: &mut Screen, printer: &Printer) {
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
