//! The verbs over many pods: what `status`, `streams` and `drain` do when they are given a
//! namespace, a selector or a node, and `rollout`.

pub(super) mod args;
pub(crate) mod deletion_cost;
pub(super) mod node;
pub(crate) mod rollout;
pub(super) mod status;
pub(super) mod streams;

use laststream::fleet::{FleetError, Survey, client};

use crate::commands::exit::Exit;
use crate::commands::printer::Printer;

/// Runs the work of a verb, and prints why it could not be done.
pub(super) fn block_on(
    printer: &Printer,
    work: impl Future<Output = Result<Exit, FleetError>>,
) -> Exit {
    let done = client::runtime().and_then(|runtime| runtime.block_on(work));
    done.unwrap_or_else(|error| printer.failed(&error))
}

/// The exit code after all that could be asked has been printed.
pub(super) fn ending(survey: &Survey, printer: &Printer) -> Exit {
    if let Some(failure) = &survey.failure {
        return printer.failed(failure);
    }
    let silent = survey.silent();
    if silent == 0 {
        return Exit::Fine;
    }
    let pods = if silent == 1 { "1 pod".to_owned() } else { format!("{silent} pods") };
    printer.warning(&format!("{pods} could not be asked; `-o wide` says why"));
    Exit::Found
}
