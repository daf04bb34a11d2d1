//! `laststream streams` over many pods.

use clap::Args;
use laststream_fleet::listing::{Listing, PodListing};
use laststream_fleet::{Answer, AskOptions, FleetError, GateQuery, PodFacts, table};
use laststream_gate::text::many;

use super::{block_on, ending_of_statistics};
use crate::args::pods::FleetArgs;
use crate::commands::{Ended, Exit, Output, Printer};

#[derive(Debug, Args)]
pub(crate) struct StreamsArgs {
    #[command(flatten)]
    pub(crate) fleet: FleetArgs,
    /// The largest number of streams to list.
    #[arg(
        long,
        value_name = "COUNT",
        default_value_t = 20,
        value_parser = clap::value_parser!(u32).range(1..=100)
    )]
    pub(crate) limit: u32,
    /// The format of the result. `json` prints the body of the gate's response; for many pods, an
    /// object with `streams`, each with its namespace and pod, with `pods`, each with its counts,
    /// and with `complete`.
    #[arg(short, long, value_name = "FORMAT", value_enum, default_value_t)]
    pub(crate) output: Output,
}

/// The most pods that are named because they do not list all streams. `-o json` has all.
const MOST_NAMED: usize = 20;

pub(crate) fn run(StreamsArgs { fleet, limit, output }: &StreamsArgs, printer: &Printer) -> Ended {
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
                let without_proxy = many(survey.without_proxy as u64, "pod");
                let message =
                    format!("no pod with a proxy was found, and {without_proxy} without one");
                printer.status_line(&format!("{message}: are the namespace and the labels right?"));
            }
            Output::Text if listing.complete && survey.pods.iter().all(is_counted) => {
                printer.status_line("no stream is in flight");
            }
            Output::Text => printer.status_line("no stream is listed"),
        }
        warn(&listing, printer);
        let exit = ending_of_statistics(&survey, &cluster, printer);
        let is_incomplete = exit == Exit::Fine && !listing.complete;
        Ok::<_, FleetError>(if is_incomplete { Exit::Negative } else { exit })
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
        let length = listing.streams.len();
        printer.warning(&format!(
            "only the {length} oldest streams are shown (`--limit`); the pods listed {left_out} \
             more"
        ));
    }
}
