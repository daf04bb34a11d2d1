//! The drain at the end of `laststream run`, as it is printed.

use std::process::ExitStatus;

use laststream_gate::text::if_any;
use laststream_local::run::{Drained, Runner, Step};

use crate::commands::{Ended, Exit, Failure, Printer};

pub(super) fn drain(runner: &mut Runner, printer: &Printer) -> Ended {
    printer.status_line("draining; Ctrl-C again ends it at once");
    let on_step = |step: &Step| match step {
        Step::Waiting { reason, late, deadline_in } => {
            let late = if_any(*late, format!("; requests that came after the drain began: {late}"));
            let limit = deadline_in
                .map_or(String::new(), |left| format!(" (at most {} s)", left.as_secs()));
            printer.status_line(&format!("waiting: {reason}{late}{limit}"));
        }
        Step::Unknown(error) => printer.warning(&format!("the gate does not answer: {error}")),
    };
    let drained = runner.drain(&on_step);
    let log = runner.places().log.display().to_string();
    match drained {
        Drained::Empty { exempt } => {
            let but =
                format!(", but for long-lived streams that the policy does not wait for: {exempt}");
            let but = if_any(exempt, but);
            let log =
                if runner.release_folder() { String::new() } else { format!("; its log: {log}") };
            printer.status_line(&format!(
                "no stream was in flight when the gate let Envoy end{but}{log}"
            ));
            Ok(Exit::Fine)
        }
        Drained::Cut { streams, names, why } => {
            let names = if names.is_empty() { names } else { format!(" ({names})") };
            printer.warning(&format!(
                "{why}; streams in flight at the last look, cut now: {streams}{names}; Envoy's \
                    log: {log}"
            ));
            Ok(Exit::Negative)
        }
        Drained::Ended(status) => Err(ended(runner, &status)),
    }
}

/// The error if Envoy has ended by itself.
pub(super) fn ended(runner: &Runner, status: &ExitStatus) -> Failure {
    let (log, tail) = (runner.places().log.display(), runner.tail());
    format!("Envoy has ended by itself ({status}); the end of `{log}`:\n{tail}").into()
}
