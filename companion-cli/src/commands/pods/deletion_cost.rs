//! `laststream deletion-cost`

use clap::Args;
use laststream_base::time_span::TimeSpan;
use laststream_fleet::deletion_cost::{CostChange, Costs};
use laststream_fleet::{AskOptions, Cluster, FleetError, GateQuery, Need, Survey};
use laststream_gate::text::many;

use super::{block_on, ending_of_statistics};
use crate::args::pods::FleetArgs;
use crate::commands::{Ended, Exit, Output, Printer, misused};

/// Writes how many streams each pod has into the annotation by which a scale-down chooses pods, so
/// that the emptiest pod goes first.
///
/// The annotation is `controller.kubernetes.io/pod-deletion-cost`. Its value is 0 without streams,
/// and one more for each doubling: 1, 2 from 2, 3 from 4. It is written only when it changes, and
/// for one pod at most once in 30 s. It rises at once and falls after three looks; with `--once` it
/// falls at once. A second annotation, `laststream.io/deletion-cost`, marks it as this command's
/// own. A pod with streams that no count has keeps its cost, and a warning says so.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct DeletionCost {
    #[command(flatten)]
    fleet: FleetArgs,
    /// Writes the costs once, for example before a scale-down. By default the command runs until it
    /// is interrupted.
    #[arg(long)]
    once: bool,
    /// The time between two looks, 30s or more.
    #[arg(long, value_name = "TIME", default_value = "30s", conflicts_with = "once")]
    interval: TimeSpan,
    /// Replaces costs that an operator or another program has written. Otherwise they stay.
    #[arg(long)]
    overwrite: bool,
    /// Removes the costs that this command has written, and ends.
    #[arg(long, conflicts_with_all = ["once", "interval", "overwrite"])]
    clear: bool,
    /// Writes nothing; prints what it would write.
    #[arg(long)]
    dry_run: bool,
    /// The format of the result. `json` prints one object in each line, for each change:
    /// `namespace`, `pod`, `written`, and `streams`, `from` and `to`, or `removed`.
    #[arg(short, long, value_name = "FORMAT", value_enum, default_value_t)]
    output: Output,
}

const EXAMPLES: &str = "\
Examples:
  laststream deletion-cost -n istio-ingress -l istio=ingressgateway
  laststream deletion-cost -n shop -l app=shop --once && kubectl scale deployment/shop --replicas 2
  laststream deletion-cost -n shop -l app=shop --once --dry-run
  laststream deletion-cost -n shop -l app=shop --clear

Only ReplicaSets read the cost, and Karpenter. envoyfilter-manifests/rights has the rights.

The costs stay when the command ends, and new pods have none: later scale-downs take the new pods
first, however many streams these have. Run the command all the time, or remove the costs with
`--clear`.";

/// The shortest interval, because each write is work for all watchers of pods.
const SHORTEST: TimeSpan = TimeSpan::seconds(30);

pub(crate) fn run(command: &DeletionCost, printer: &Printer) -> Ended {
    if command.interval < SHORTEST {
        let interval = command.interval;
        let why = format!("--interval: `{interval}` is too short: write `{SHORTEST}` or more");
        return Err(misused(why));
    }
    block_on(async {
        let cluster = command.fleet.connect().await?;
        if command.clear {
            return clear(command, &cluster, printer).await;
        }
        let mut has_answered = false;
        let mut costs = Costs::new(command.overwrite, command.once);
        loop {
            match look(command, &cluster, &mut costs, printer).await {
                Ok(exit) if command.once => return Ok(exit),
                Err(error) if command.once || error.ends_watch(has_answered) => return Err(error),
                Ok(_) => has_answered = true,
                Err(error) => printer.warning(&error),
            }
            tokio::time::sleep(command.interval.duration()).await;
        }
    })
}

async fn clear(
    command: &DeletionCost,
    cluster: &Cluster,
    printer: &Printer,
) -> Result<Exit, FleetError> {
    let (pods, missing) = command.fleet.listed(cluster).await?;
    let changes = pods.iter().filter_map(CostChange::removal).collect();
    write(changes, pods.len(), command, cluster, printer).await?;
    Ok(ending_of_statistics(&Survey { missing, ..Survey::default() }, cluster, printer))
}

async fn look(
    command: &DeletionCost,
    cluster: &Cluster,
    costs: &mut Costs,
    printer: &Printer,
) -> Result<Exit, FleetError> {
    let query = GateQuery::IfUnknown(Need::Count);
    let options = AskOptions { query, ..command.fleet.ask_options() };
    let survey = command.fleet.survey(cluster, options).await?;
    let look = costs.look(&survey.pods);
    look.warnings.iter().for_each(|warning| printer.warning(warning));
    write(look.changes, survey.pods.len(), command, cluster, printer).await?;
    let exit = ending_of_statistics(&survey, cluster, printer);
    Ok(if exit == Exit::Fine && look.is_incomplete { Exit::Negative } else { exit })
}

/// Writes the changes, and prints those that were written.
async fn write(
    changes: Vec<CostChange>,
    pods: usize,
    command: &DeletionCost,
    cluster: &Cluster,
    printer: &Printer,
) -> Result<(), FleetError> {
    let (written, failure) = match command.dry_run {
        true => (changes, None),
        false => cluster.write_costs(changes).await,
    };
    for change in &written {
        let json = change.json(!command.dry_run).to_string();
        printer.answer(command.output, &json, &change.text());
    }
    if written.is_empty() && failure.is_none() && (command.once || command.clear) {
        printer.status_line(&format!("{}, nothing to write", many(pods as u64, "pod")));
    }
    failure.map_or(Ok(()), Err)
}
