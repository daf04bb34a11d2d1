//! The time in which the Envoy of `laststream run` serves.

use std::path::Path;
use std::time::Duration;

use laststream_local::run::{Runner, StopRequests, Watches};
use laststream_policy::Policy;

use super::drain::ended;
use crate::commands::{Failure, Printer};
use crate::input::policy;

/// The pause between two checks of signals, files and the process.
const PAUSE: Duration = Duration::from_millis(50);

/// The addresses of a running Envoy.
pub(super) fn announcement(runner: &Runner, is_app_built_in: bool) -> String {
    let places = runner.places();
    let note = if is_app_built_in { " (built in, shows each request)" } else { "" };
    format!(
        "listener: {}\ngate:     {}\nadmin:    {}\nupstream: {}{note}\nlog:      {}",
        places.listener,
        places.gate,
        places.admin,
        places.upstream,
        places.log.display()
    )
}

/// Serves until a request to stop. An error means that Envoy has ended by itself.
pub(super) fn serve(
    runner: &mut Runner,
    file: Option<&Path>,
    mut watches: Watches,
    stop: &StopRequests,
    printer: &Printer,
) -> Result<(), Failure> {
    while !stop.is_requested() {
        if let Some(status) = runner.ended() {
            return Err(ended(runner, &status));
        }
        match watches.changed_policy() {
            Some(Ok(read)) => match policy(file, "", read, printer) {
                Ok(policy) => replace(runner, "policy", Some(&policy), None, printer),
                Err(_) => printer.warning(&"the previous policy stays active"),
            },
            Some(Err(error)) => {
                printer.warning(&format!("{error}; the previous policy stays active"))
            }
            None => {}
        }
        match watches.changed_module() {
            Some(Ok(bytes)) => replace(runner, "module", None, Some(&bytes), printer),
            Some(Err(error)) => {
                printer.warning(&format!("{error}\nthe previous module stays active"))
            }
            None => {}
        }
        std::thread::sleep(PAUSE);
    }
    Ok(())
}

fn replace(
    runner: &mut Runner,
    what: &str,
    policy: Option<&Policy>,
    module: Option<&[u8]>,
    printer: &Printer,
) {
    match runner.replace(policy, module) {
        Ok(()) => printer.status_line(&format!("the new {what} is in place")),
        Err(refusal) => printer.warning(&format!(
            "the new {what} is rejected, the previous one stays active: {refusal}"
        )),
    }
}
