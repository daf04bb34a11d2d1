//! `laststream streams` over many pods.

use laststream::fleet::{Answer, Gates, Manner, PodFacts, table};

use super::args::FleetArgs;
use super::{block_on, ending};
use crate::commands::exit::Exit;
use crate::commands::output::Output;
use crate::commands::printer::Printer;

const VERB: &str = "streams";

pub(in crate::commands) fn run(
    fleet: &FleetArgs,
    limit: u32,
    output: Output,
    printer: &Printer,
) -> Exit {
    block_on(printer, async {
        let cluster = fleet.cluster.connect().await?;
        let manner = Manner { streams: limit, gates: Gates::Every, ..fleet.reach.manner(VERB) };
        let survey = fleet.survey(&cluster, manner).await?;
        let most = usize::try_from(limit).unwrap_or(usize::MAX);
        let streams = table::oldest(&survey.pods, most);
        match output {
            Output::Json => printer.json(&format!("{:#}", serde_json::json!(streams))),
            Output::Text if streams.is_empty() && survey.pods.iter().all(is_complete) => {
                printer.status_line("no stream is in flight");
            }
            Output::Text if streams.is_empty() => printer.status_line("no stream is listed"),
            Output::Text => printer.stdout(&table::streams(&streams, fleet.is_everywhere())),
        }
        let unlisted = survey.pods.iter().filter_map(|(pod, answer)| {
            Some(format!("{} does not list its streams: {}", pod.path(), unlisted(answer)?))
        });
        let unlisted: Vec<String> = unlisted.collect();
        unlisted.iter().for_each(|warning| printer.warning(warning));
        let exit = ending(&survey, printer);
        Ok(if exit == Exit::Fine && !unlisted.is_empty() { Exit::Found } else { exit })
    })
}

fn is_complete((_, answer): &(PodFacts, Answer)) -> bool {
    match answer {
        Answer::Detail(detail) => detail.streams.is_ok(),
        Answer::Unasked => true,
        Answer::Stats(_) | Answer::Silent(_) => false,
    }
}

/// Why the streams of a proxy with laststream are not listed. Those that have not answered at all
/// are told elsewhere.
fn unlisted(answer: &Answer) -> Option<String> {
    match answer {
        Answer::Detail(detail) => detail.streams.as_ref().err().cloned(),
        Answer::Stats(stats) if stats.counts() || stats.state.is_some() => {
            let streams: u64 = stats.in_flight.values().sum();
            let why = stats.gate_error.as_deref().unwrap_or("it has no gate");
            Some(format!("{streams} in flight, and its gate cannot be asked: {why}"))
        }
        Answer::Stats(_) | Answer::Silent(_) | Answer::Unasked => None,
    }
}
