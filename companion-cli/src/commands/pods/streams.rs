//! `laststream streams` over many pods.

use laststream_fleet::listing::{Listing, PodListing};
use laststream_fleet::{Answer, AskOptions, GateQuery, PodFacts, table};
use laststream_gate::text::many;

use super::{block_on, ending_of_statistics};
use crate::commands::streams::Streams;
use crate::commands::{Ended, Exit, Output, Printer};

/// The most pods that are named because they do not list all streams. `-o json` has all.
const MOST_NAMED: usize = 20;

pub(in crate::commands) fn run(
    Streams { fleet, limit, output, .. }: &Streams,
    printer: &Printer,
) -> Ended {
    block_on(async {
        let cluster = fleet.connect().await?;
        let options =
            AskOptions { streams: *limit, query: GateQuery::First, ..fleet.ask_options() };
        let survey = fleet.survey(&cluster, options).await?;
        let listing = Listing::of(&survey.pods, *limit);
        let streams = &listing.streams;
        match output {
            Output::Json => printer.value(&listing),
            Output::Text if !streams.is_empty() => {
                printer.stdout(&table::streams(streams, fleet.is_everywhere()));
            }
            Output::Text if survey.pods.is_empty() => {
                let others = many(survey.without_proxy as u64, "pod");
                let found = format!("no pod with a proxy was found, and {others} without one");
                printer.status_line(&format!("{found}: are the namespace and the labels right?"));
            }
            Output::Text if listing.complete && survey.pods.iter().all(is_counted) => {
                printer.status_line("no stream is in flight");
            }
            Output::Text => printer.status_line("no stream is listed"),
        }
        warn(&listing, printer);
        let exit = ending_of_statistics(&survey, &cluster, printer);
        Ok(if exit == Exit::Fine && !listing.complete { Exit::Negative } else { exit })
    })
}

/// Whether the gate has answered, or the proxy does not run. A proxy without laststream counts no
/// streams.
fn is_counted((_, answer): &(PodFacts, Answer)) -> bool {
    matches!(answer, Answer::Detail(_) | Answer::Unasked)
}

/// Warns about streams that are not in the list.
fn warn(listing: &Listing, printer: &Printer) {
    let warnings: Vec<String> = listing.pods.iter().filter_map(PodListing::warning).collect();
    warnings.iter().take(MOST_NAMED).for_each(|warning| printer.warning(warning));
    let more = warnings.len().saturating_sub(MOST_NAMED) as u64;
    if more > 0 {
        let pods = many(more, "other pod");
        printer.warning(&format!("{pods} did not list all streams; `-o json` names them"));
    }
    let left_out = listing.left_out();
    if left_out > 0 {
        let shown = listing.streams.len();
        printer.warning(&format!(
            "only the {shown} oldest streams are shown (`--limit`); the pods listed {left_out} more"
        ));
    }
}
