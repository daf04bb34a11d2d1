//! `laststream status` over many pods.

use std::collections::BTreeSet;
use std::time::Duration;

use clap::Args;
use laststream_base::time_span::TimeSpan;
use laststream_fleet::refusal::folded;
use laststream_fleet::table::{self, Width};
use laststream_fleet::trouble::{self, Trouble};
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
    /// Shows only pods with trouble: those that cannot be asked, that drain, whose drain ended
    /// before the last stream, or whose count lacks streams.
    #[arg(long, help_heading = "Cluster")]
    pub(crate) trouble: bool,
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
        let mut view = View::default();
        let mut has_answered = false;
        loop {
            let survey = options.fleet.survey(&cluster, ask).await;
            let exit = match survey {
                Ok(survey) => {
                    has_answered = true;
                    view.show(options, &survey, printer);
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
                view.screen.forget(); // a message stands below the table
            }
            tokio::time::sleep(options.interval.duration().max(SHORTEST)).await;
        }
    })
}

/// The output of one look after the other.
struct View {
    screen: Screen,
    /// What the last look printed as lines.
    shown_text: String,
}

impl Default for View {
    fn default() -> Self {
        Self {
            screen: Screen::new("`--trouble`, `-l` or a larger terminal"),
            shown_text: String::new(),
        }
    }
}

impl View {
    fn show(&mut self, options: &StatusArgs, survey: &Survey, printer: &Printer) {
        let mut reports: Vec<PodReport> =
            survey.pods.iter().map(|(pod, answer)| PodReport::of(pod, answer)).collect();
        trouble::sort(&mut reports);
        let mut last = last_line(&reports, survey.without_proxy);
        if options.trouble {
            reports.retain(|report| Trouble::of(report).is_some());
            last = format!("{last}; {} with trouble", reports.len());
        }
        if options.output == FleetOutput::Json {
            return printer.value(&serde_json::json!({
                "pods": reports, "without_proxy": survey.without_proxy,
            }));
        }
        let text = text(options, survey, reports);
        if options.watch && can_redraw(&std::io::stdout()) {
            return self.screen.draw(&text, Some(&last), printer);
        }
        let news = news(&text, &self.shown_text);
        if !news.is_empty() {
            printer.stdout(&news);
        }
        printer.status_line(&last);
        self.shown_text = text;
    }
}

/// The table. With `-o wide` and for a node, a pod that refuses shows what is known of it.
fn text(options: &StatusArgs, survey: &Survey, reports: Vec<PodReport>) -> String {
    let width = Width {
        namespaces: options.fleet.is_everywhere(),
        wide: options.output == FleetOutput::Wide,
        deletion: options.fleet.node.is_some(),
    };
    let reports = match &survey.failure {
        Some(failure) if !width.wide && !width.deletion => folded(reports, failure),
        _ => reports,
    };
    if reports.is_empty() { String::new() } else { table::pods(&reports, width) }
}

/// The lines that have changed since the last look, or all if the columns have moved.
fn news(text: &str, last: &str) -> String {
    let shown: BTreeSet<&str> = last.lines().collect();
    text.split_inclusive('\n').filter(|line| !shown.contains(line.trim_end_matches('\n'))).collect()
}

fn last_line(reports: &[PodReport], without_proxy: usize) -> String {
    let summary = summary(reports);
    if without_proxy == 0 { summary } else { format!("{summary}; {without_proxy} without a proxy") }
}

#[cfg(test)]
mod tests {
    use super::news;

    #[test]
    fn only_rows_that_have_changed_are_news() {
        let first = "POD  DRAIN\na    -\nb    9 s\n";
        assert_eq!(news(first, ""), first);
        assert_eq!(news("POD  DRAIN\na    -\nb    8 s\n", first), "b    8 s\n");
        assert_eq!(news(first, first), "");
    }
}
