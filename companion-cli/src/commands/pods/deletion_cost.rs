//! `laststream deletion-cost`

use clap::Args;
use laststream_base::time_span::TimeSpan;
use laststream_fleet::deletion_cost::{self, Change, Lowering};
use laststream_fleet::{AskOptions, Cluster, FleetError, Gates, PodFacts, Survey};
use laststream_gate::text::many;

use super::args::FleetArgs;
use super::{block_on, ending_of_statistics};
use crate::commands::exit::Exit;
use crate::commands::output::Output;
use crate::commands::printer::Printer;

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
    /// Writes the costs once, for example before a scale-down. By default the command goes on.
    #[arg(long)]
    once: bool,
    /// The time between two looks, 30s or more.
    #[arg(long, value_name = "TIME", default_value = "30s", conflicts_with = "once")]
    interval: TimeSpan,
    /// Replaces costs that an operator or another program has written. Otherwise they stay.
    #[arg(long)]
    overwrite: bool,
    /// Writes nothing; prints what it would write.
    #[arg(long)]
    dry_run: bool,
    /// The format of the result. `json` prints one object in each line, for each cost.
    #[arg(short, long, value_name = "FORMAT", value_enum, default_value_t)]
    output: Output,
}

const EXAMPLES: &str = "\
Examples:
  laststream deletion-cost -n istio-ingress -l istio=ingressgateway
  laststream deletion-cost -n shop -l app=shop --once && kubectl scale deployment/shop --replicas 2
  laststream deletion-cost -n shop -l app=shop --once --dry-run

Only ReplicaSets read the annotation. envoyfilter-manifests/rights has the rights.

The costs stay when the command ends, and new pods have none: later scale-downs take the new pods
first, however many streams these have. Run the command all the time, or remove the costs:
  kubectl annotate pods -n shop -l app=shop controller.kubernetes.io/pod-deletion-cost- \
          laststream.io/deletion-cost-";

/// The shortest interval, because each write is work for all watchers of pods.
const SHORTEST: TimeSpan = TimeSpan::seconds(30);

pub(in crate::commands) fn run(command: &DeletionCost, printer: &Printer) -> Exit {
    if command.interval < SHORTEST {
        return printer.misused(&format!(
            "--interval: `{}` is too short: write `{SHORTEST}` or more",
            command.interval
        ));
    }
    block_on(printer, async {
        let cluster = command.fleet.connect().await?;
        let mut has_answered = false;
        let mut state = State::default();
        loop {
            match look(command, &cluster, &mut state, printer).await {
                Ok(exit) if command.once => return Ok(exit),
                Err(error) if command.once || error.ends_watch(has_answered) => return Err(error),
                Ok(_) => has_answered = true,
                Err(error) => printer.warning(&error),
            }
            tokio::time::sleep(command.interval.duration()).await;
        }
    })
}

/// State of the earlier looks.
#[derive(Default)]
struct State {
    lowering: Lowering,
    foreign: usize,
    uncounted: usize,
}

async fn look(
    command: &DeletionCost,
    cluster: &Cluster,
    state: &mut State,
    printer: &Printer,
) -> Result<Exit, FleetError> {
    let options = AskOptions { gates: Gates::Uncounted, ..command.fleet.ask_options() };
    let survey = command.fleet.survey(cluster, options).await?;
    let keeps = |pod: &PodFacts| !command.overwrite && deletion_cost::is_foreign(pod);
    let foreign = survey.pods.iter().filter(|(pod, _)| keeps(pod)).count();
    if foreign > 0 && foreign != state.foreign {
        printer.warning(&format!(
            "{foreign} pods have a cost that another program or an operator wrote, and keep it; \
             `--overwrite` replaces it"
        ));
    }
    state.foreign = foreign;
    let uncounted = warn_uncounted(&survey, state, printer);
    let own = survey.pods.iter().filter(|(pod, _)| !keeps(pod));
    let changes = own.filter_map(|(pod, answer)| deletion_cost::change(pod, answer)).collect();
    let changes = if command.once { changes } else { state.lowering.changes_to_write(changes) };
    let (written, failure) = match command.dry_run {
        true => (changes, None),
        false => cluster.write_costs(changes).await,
    };
    print(&written, command, printer);
    if let Some(failure) = failure {
        return Err(failure);
    }
    if written.is_empty() && command.once {
        printer
            .status_line(&format!("{}, nothing to write", many(survey.pods.len() as u64, "pod")));
    }
    let exit = ending_of_statistics(&survey, cluster, printer);
    Ok(if exit == Exit::Fine && uncounted > 0 { Exit::Negative } else { exit })
}

/// Warns if the number of pods with streams that no count has is new. Returns that number.
fn warn_uncounted(survey: &Survey, state: &mut State, printer: &Printer) -> usize {
    let answers = survey.pods.iter();
    let uncounted =
        answers.filter(|(pod, answer)| deletion_cost::is_uncounted(pod, answer)).count();
    if uncounted > 0 && uncounted != state.uncounted {
        printer.warning(&format!(
            "the costs of {} stay, because no count has all streams there; `laststream status -o \
             wide` says why",
            many(uncounted as u64, "pod")
        ));
    }
    state.uncounted = uncounted;
    uncounted
}

fn print(changes: &[Change], command: &DeletionCost, printer: &Printer) {
    for Change { pod, streams, from, to } in changes {
        let json = serde_json::json!({
            "namespace": pod.namespace, "pod": pod.name, "streams": streams, "from": from, "to": to,
            "written": !command.dry_run,
        });
        let before = from.map_or("none".to_owned(), |cost| cost.to_string());
        let (path, streams) = (pod.path(), many(*streams, "stream"));
        let text = format!("{path}: {before} -> {to}, {streams} in flight");
        printer.result(command.output, &json.to_string(), &text);
    }
}
