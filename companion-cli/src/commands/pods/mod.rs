//! The commands for pods: `status`, `streams`, `drain` and `wait` with names, a namespace, a
//! selector or a node, and `rollout` and `deletion-cost`.

pub(crate) mod deletion_cost;
pub(super) mod drain;
pub(crate) mod rollout;
pub(super) mod status;
pub(super) mod streams;
pub(super) mod wait;

use laststream_fleet::outcomes::PodOutcome;
use laststream_fleet::{Cluster, FleetError, PodFacts, Survey, client};
use laststream_gate::text::many;

use crate::args::pods::PodArgs;
use crate::commands::{Exit, Failure, Output, Printer};

/// Does the work of a command, or a part of it.
pub(super) fn block_on<T, E>(work: impl Future<Output = Result<T, E>>) -> Result<T, Failure>
where
    Failure: From<E>,
{
    let runtime = client::runtime()?;
    let result = runtime.block_on(work);
    runtime.shutdown_background(); // a hanging credential program must not delay the end
    Ok(result?)
}

/// The pods that a command for pods means, and the results for names that no pod has.
pub(super) async fn targets(
    pods: &PodArgs,
    cluster: &Cluster,
) -> Result<(Vec<PodFacts>, Vec<PodOutcome>), FleetError> {
    let (pods, names) = cluster.targets(&pods.selection()).await?;
    Ok((pods, missing(&names, cluster)))
}

fn missing(names: &[String], cluster: &Cluster) -> Vec<PodOutcome> {
    names.iter().map(|name| PodOutcome::missing(cluster.namespace(), name)).collect()
}

/// Prints a line for each pod, or one JSON object.
pub(super) fn report(outcomes: &[PodOutcome], output: Output, printer: &Printer) -> Exit {
    match output {
        Output::Json => printer.value(&serde_json::json!({ "pods": outcomes })),
        Output::Text => {
            for (line, is_error) in outcomes.iter().map(PodOutcome::line) {
                if is_error { printer.error(&line) } else { printer.stdout(&line) }
            }
        }
    }
    let is_negative = outcomes.iter().any(|outcome| outcome.is_negative);
    if is_negative { Exit::Negative } else { Exit::Fine }
}

/// The exit code after the answers of all reachable pods were printed. Warns about the others.
pub(super) fn ending(survey: &Survey, cluster: &Cluster, printer: &Printer) -> Exit {
    let exit = ending_of_statistics(survey, cluster, printer);
    let gates = survey.silent_gates() as u64;
    if exit == Exit::Failed || gates == 0 {
        return exit;
    }
    printer.warning(&format!("{} could not be asked; {WHY}", many(gates, "gate")));
    Exit::Negative
}

/// Like [`ending`], but silent gates do not count.
pub(super) fn ending_of_statistics(survey: &Survey, cluster: &Cluster, printer: &Printer) -> Exit {
    let missing = report(&missing(&survey.missing, cluster), Output::Text, printer);
    if let Some(failure) = &survey.failure {
        printer.error(failure);
        return Exit::Failed;
    }
    let silent = survey.silent() as u64;
    if silent == 0 {
        return missing;
    }
    printer.warning(&format!("{} could not be asked; {WHY}", many(silent, "pod")));
    Exit::Negative
}

const WHY: &str = "`laststream status -o wide` says why";
