//! Ends the proxy: through the gate, which waits for streams in flight. Without a gate, or after
//! the time-out, by the quit URL. If the quit URL fails, by `POST /force` to the gate.

use std::time::{Duration, Instant};

use http::Method;
use laststream_gate::{DrainCommand, GateError, Signal, request};

use super::{ExecContext, ready};

const INTERVAL: Duration = Duration::from_millis(200);
const TIME_LIMIT: Duration = Duration::from_secs(2);
/// The time limit for the gate's first answer. Envoy needs longer with many clusters, so the limit
/// doubles after each time-out.
const FIRST_TIME_LIMIT: Duration = Duration::from_secs(5);

pub(super) enum Ending {
    Done,
    Interrupted,
    Failed(String),
}

/// Ends the proxy. After `until`, a refusal by the gate no longer counts.
pub(super) fn end(stage: &mut ExecContext<'_>, until: Instant) -> Ending {
    match request_end(stage, until) {
        Ok(()) => wait_until_gone(stage),
        Err(ending) => ending,
    }
}

fn request_end(stage: &mut ExecContext<'_>, until: Instant) -> Result<(), Ending> {
    let mut limit = FIRST_TIME_LIMIT;
    let by_gate = loop {
        let time_left = until.saturating_duration_since(Instant::now());
        match stage.gate.quit_within(limit.min(time_left).max(TIME_LIMIT)) {
            Ok(Signal::Passed) => return Ok(()),
            Ok(Signal::Refused(_)) if !time_left.is_zero() => {}
            // The gate is there, and has not yet let the signal pass.
            Err(GateError::Timeout(_)) if !time_left.is_zero() => limit *= 2,
            Err(GateError::VmMissing) if !time_left.is_zero() => {}
            Ok(Signal::Refused(outcome)) => break outcome.reason,
            Err(error) => break error.to_string(),
        }
        if stage.pause(INTERVAL).is_some() {
            return Err(Ending::Interrupted);
        }
    };
    let url = stage.plan.quit_url.with("");
    let Err(by_url) = post(&url) else { return Ok(()) };
    // Without a listener at the quit URL, only the gate can end the proxy.
    let reason = "laststream exec: the command has ended, and so has the time for its streams";
    let forced = stage.gate.command(&DrainCommand::Force(reason.to_owned()));
    match forced.and_then(|_| stage.gate.quit()) {
        Ok(Signal::Passed) => Ok(()),
        _ => Err(Ending::Failed(format!(
            "the gate at {}: {by_gate}; {url}: {by_url}",
            stage.gate.address()
        ))),
    }
}

fn post(url: &str) -> Result<(), String> {
    match request(Method::POST, url, &[], TIME_LIMIT) {
        Ok(response) if (200..300).contains(&response.status) => Ok(()),
        Ok(response) => Err(format!("status {}", response.status)),
        Err(error) if error.may_have_arrived() => Ok(()), // the proxy ends before it answers
        Err(error) => Err(error.to_string()),
    }
}

fn wait_until_gone(stage: &mut ExecContext<'_>) -> Ending {
    let timeout = stage.plan.quit_timeout.duration();
    let until = Instant::now() + timeout;
    while !ready::is_gone(stage) {
        if Instant::now() >= until {
            return Ending::Failed(format!(
                "it was told to end and is still there after {timeout:?}"
            ));
        }
        if stage.pause(INTERVAL).is_some() {
            return Ending::Interrupted;
        }
    }
    Ending::Done
}
