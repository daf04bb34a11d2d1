//! The commands for pods: `status`, `streams`, `drain` and `wait` with names, a namespace, a
//! selector or a node, and `rollout` and `deletion-cost`.

pub(super) mod args;
pub(crate) mod deletion_cost;
pub(super) mod drain;
mod patience;
pub(crate) mod rollout;
mod rollout_line;
pub(super) mod status;
pub(super) mod streams;
pub(super) mod wait;

use laststream_fleet::{Cluster, FleetError, Survey, client};
use laststream_gate::text::many;

use crate::commands::exit::Exit;
use crate::commands::printer::Printer;

/// Runs the work of a command, and prints the error if it fails.
pub(super) fn block_on(
    printer: &Printer,
    work: impl Future<Output = Result<Exit, FleetError>>,
) -> Exit {
    let done = client::runtime().and_then(|runtime| {
        let done = runtime.block_on(work);
        runtime.shutdown_background(); // a hanging credential program must not delay the end
        done
    });
    done.unwrap_or_else(|error| printer.failed(&error))
}

/// The exit code for names that no pod has. Prints an error for each.
pub(super) fn report_missing(names: &[String], cluster: &Cluster, printer: &Printer) -> Exit {
    for name in names {
        let namespace = cluster.namespace();
        printer.error(&format!("pod/{name}: it does not exist in namespace `{namespace}`"));
    }
    if names.is_empty() { Exit::Fine } else { Exit::Negative }
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
    let missing = report_missing(&survey.missing, cluster, printer);
    if let Some(failure) = &survey.failure {
        return printer.failed(failure);
    }
    let silent = survey.silent() as u64;
    if silent == 0 {
        return missing;
    }
    printer.warning(&format!("{} could not be asked; {WHY}", many(silent, "pod")));
    Exit::Negative
}

const WHY: &str = "`laststream status -o wide` says why";
