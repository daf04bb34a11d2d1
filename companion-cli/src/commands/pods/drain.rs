//! `laststream drain` of pods.

use std::io::IsTerminal as _;

use laststream_fleet::table::{self, Width};
use laststream_fleet::{Cluster, FleetError, PodFacts, PodReport};
use laststream_gate::DrainCommand;
use laststream_gate::text::{if_any, many};

use super::{block_on, report, targets};
use crate::args::pods::PodArgs;
use crate::commands::{Ended, Exit, Output, Printer, misused};

pub(crate) fn run(
    args: &PodArgs,
    command: &DrainCommand,
    yes: bool,
    output: Output,
    printer: &Printer,
) -> Ended {
    let can_ask = std::io::stdin().is_terminal() && std::io::stderr().is_terminal();
    if !yes && !can_ask {
        return Err(misused(
            "this changes pods, and there is no terminal to ask for confirmation: give `--yes`",
        ));
    }
    block_on(async {
        let cluster = args.cluster.connect().await?;
        let (pods, mut outcomes) = targets(args, &cluster).await?;
        if !yes && !pods.is_empty() {
            let missing = outcomes.iter().map(|outcome| outcome.line().0);
            missing.for_each(|line| printer.status_line(&line));
            if !is_confirmed(args, command, &cluster, &pods, printer).await? {
                printer.status_line("nothing was changed");
                return Ok(Exit::Negative);
            }
        }
        let at_a_time = args.reach.at_a_time();
        let (answered, failure) = cluster.command_all(&pods, command, at_a_time).await;
        outcomes.extend(answered);
        let exit = report(&outcomes, output, printer);
        failure.map_or(Ok(exit), Err)
    })
}

/// Shows the pods and what the command would do to them, and asks.
async fn is_confirmed(
    args: &PodArgs,
    command: &DrainCommand,
    cluster: &Cluster,
    pods: &[PodFacts],
    printer: &Printer,
) -> Result<bool, FleetError> {
    let answers = cluster.ask_gates(pods.to_vec(), args.reach.ask_options()).await?;
    let reports: Vec<PodReport> =
        answers.iter().map(|(pod, answer)| PodReport::of(pod, answer)).collect();
    printer.status_line(table::pods(&reports, Width::default()).trim_end());
    let count = many(reports.len() as u64, "pod");
    let place = format!("{count} in namespace `{}` of {}", cluster.namespace(), cluster.server());
    let in_flight: Vec<_> = answers.iter().map(|(_, answer)| answer.in_flight()).collect();
    Ok(printer.confirm(&question(command, &place, &in_flight)))
}

/// The question, with the streams that the command cuts. A number that is not known is `None`.
fn question(command: &DrainCommand, pods: &str, in_flight: &[Option<u64>]) -> String {
    match command {
        DrainCommand::Begin => format!("begin the drain of {pods}?"),
        DrainCommand::Cancel => format!("cancel the drain of {pods}?"),
        DrainCommand::Force(_) => {
            let total = many(
                in_flight.iter().flatten().fold(0, |sum, count| sum.saturating_add(*count)),
                "stream",
            );
            let unknown = in_flight.iter().filter(|count| count.is_none()).count() as u64;
            let pods_unknown =
                format!(", and those of {}, which are not known", many(unknown, "pod"));
            let unknown = if_any(unknown, pods_unknown);
            format!("open the gates of {pods} by force, and cut {total}{unknown}?")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_question_says_which_streams_are_cut() {
        let force = DrainCommand::Force("why".into());
        let asked = question(&force, "3 pods", &[Some(2), Some(1), None]);
        let words = "open the gates of 3 pods by force, and cut 3 streams, and those of 1 pod, \
                     which are not known?";
        assert_eq!(asked, words);
        assert_eq!(question(&DrainCommand::Begin, "1 pod", &[]), "begin the drain of 1 pod?");
    }
}
