//! Ends the proxy: through the gate, which lets nobody be hurt; where there is none, or when the
//! time is over, by its own signal; and where nobody takes that, by force through the gate.

use std::time::{Duration, Instant};

use http::Method;

use super::{ExecContext, ready};
use crate::gate::Signal;

const INTERVAL: Duration = Duration::from_millis(200);
const PATIENCE: Duration = Duration::from_secs(2);

pub(super) enum Ending {
    Done,
    Interrupted,
    Failed(String),
}

/// `until` is when the gate may refuse no longer.
pub(super) fn end(stage: &mut ExecContext<'_>, until: Instant) -> Ending {
    match request_end(stage, until) {
        Ok(()) => wait_until_gone(stage),
        Err(ending) => ending,
    }
}

fn request_end(stage: &mut ExecContext<'_>, until: Instant) -> Result<(), Ending> {
    let by_gate = loop {
        match stage.plan.gate.quit() {
            Ok(Signal::Passed) => return Ok(()),
            Ok(Signal::Refused(_)) if Instant::now() < until => {}
            Ok(Signal::Refused(outcome)) => break outcome.reason,
            Err(error) => break error.to_string(),
        }
        if stage.pause(INTERVAL).is_some() {
            return Err(Ending::Interrupted);
        }
    };
    let url = stage.plan.quit.with("");
    let Err(by_url) = post(stage, &url) else { return Ok(()) };
    // Where nobody is there the gate is the only one who can.
    let forced = stage
        .plan
        .gate
        .force("laststream exec: the command has ended, and so has the time for its streams");
    match forced.and_then(|_| stage.plan.gate.quit()) {
        Ok(Signal::Passed) => Ok(()),
        _ => Err(Ending::Failed(format!(
            "the gate at {}: {by_gate}; {url}: {by_url}",
            stage.plan.gate.address()
        ))),
    }
}

fn post(stage: &ExecContext<'_>, url: &str) -> Result<(), String> {
    match stage.http.request(Method::POST, url, &[], PATIENCE) {
        Ok(response) if (200..300).contains(&response.status) => Ok(()),
        Ok(response) => Err(format!("status {}", response.status)),
        Err(error) if error.may_have_arrived() => Ok(()), // it ends before it answers
        Err(error) => Err(error.to_string()),
    }
}

fn wait_until_gone(stage: &mut ExecContext<'_>) -> Ending {
    let until = Instant::now() + stage.plan.quit_timeout;
    while !ready::is_gone(stage) {
        if Instant::now() >= until {
            return Ending::Failed(format!(
                "it was told to end and is still there after {:?}",
                stage.plan.quit_timeout
            ));
        }
        if stage.pause(INTERVAL).is_some() {
            return Ending::Interrupted;
        }
    }
    Ending::Done
}
