//! Waits until the proxy is ready.

use std::time::{Duration, Instant};

use http::Method;
use laststream_gate::{GateError, request};

use super::ExecContext;

const INTERVAL: Duration = Duration::from_millis(100);
const TIME_LIMIT: Duration = Duration::from_secs(1);
/// The time after which a wait is reported.
const LONG: Duration = Duration::from_secs(2);

pub(super) enum Ready {
    Yes,
    /// No program listens, and the plan allows a run without a proxy.
    Absent,
    /// A signal of this number came first.
    Interrupted(i32),
    Never(String),
}

pub(super) fn wait(stage: &mut ExecContext<'_>) -> Ready {
    let began = Instant::now();
    let mut absent_since = None;
    let mut is_told = false;
    loop {
        let answers = probe_ready_urls(stage);
        if answers.iter().any(|answer| matches!(answer, Ok(200))) {
            return Ready::Yes;
        }
        let is_absent =
            answers.iter().all(|answer| matches!(answer, Err(error) if error.is_absence()));
        absent_since = is_absent.then(|| absent_since.unwrap_or_else(Instant::now));
        if let Some((since, limit)) = absent_since.zip(stage.plan.no_proxy_ok)
            && since.elapsed() >= limit.duration()
        {
            return Ready::Absent;
        }
        let words = describe(stage, &answers);
        if began.elapsed() >= stage.plan.ready_timeout.duration() {
            return Ready::Never(words);
        }
        if !is_told && began.elapsed() >= LONG {
            is_told = true;
            stage.report(&format!("waiting for the proxy: {words}"));
        }
        if let Some(signal) = stage.pause(INTERVAL) {
            return Ready::Interrupted(signal);
        }
    }
}

/// Whether the proxy no longer listens.
pub(super) fn is_gone(stage: &ExecContext<'_>) -> bool {
    probe_ready_urls(stage).iter().all(|answer| matches!(answer, Err(error) if error.is_absence()))
}

fn probe_ready_urls(stage: &ExecContext<'_>) -> Vec<Result<u16, GateError>> {
    let status =
        |url: &str| request(Method::GET, url, &[], TIME_LIMIT).map(|response| response.status);
    stage.plan.ready_url.iter().map(|address| status(&address.with(""))).collect()
}

fn describe(stage: &ExecContext<'_>, answers: &[Result<u16, GateError>]) -> String {
    let in_words = |answer: &Result<u16, GateError>| match answer {
        Ok(status) => format!("status {status}"),
        Err(error) => error.to_string(),
    };
    let all = stage
        .plan
        .ready_url
        .iter()
        .zip(answers)
        .map(|(address, answer)| format!("{address}: {}", in_words(answer)));
    all.collect::<Vec<_>>().join("; ")
}
