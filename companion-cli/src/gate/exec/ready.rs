//! Waits until the proxy is ready.

use std::time::{Duration, Instant};

use http::Method;

use super::Stage;
use crate::gate::{Http, Trouble};

const INTERVAL: Duration = Duration::from_millis(100);
const PATIENCE: Duration = Duration::from_secs(1);
/// Waiting for longer than this is worth a word.
const LONG: Duration = Duration::from_secs(2);

pub(super) enum Ready {
    Yes,
    /// Nobody listens, and that is fine.
    Absent,
    /// By a signal of this number.
    Interrupted(i32),
    Never(String),
}

pub(super) fn wait(stage: &mut Stage<'_>) -> Ready {
    let began = Instant::now();
    let mut is_told = false;
    loop {
        let answers = ask(stage);
        if answers.iter().any(|answer| matches!(answer, Ok(200))) {
            return Ready::Yes;
        }
        let nobody =
            answers.iter().all(|answer| matches!(answer, Err(trouble) if trouble.is_absence()));
        if nobody && stage.plan.absent_after.is_some_and(|limit| began.elapsed() >= limit) {
            return Ready::Absent;
        }
        let words = words(stage, &answers);
        if began.elapsed() >= stage.plan.ready_timeout {
            return Ready::Never(words);
        }
        if !is_told && began.elapsed() >= LONG {
            is_told = true;
            stage.say(&format!("waiting for the proxy: {words}"));
        }
        if let Some(signal) = stage.pause(INTERVAL) {
            return Ready::Interrupted(signal);
        }
    }
}

/// Whether nobody listens any more where the proxy was.
pub(super) fn has_gone(stage: &Stage<'_>) -> bool {
    ask(stage).iter().all(|answer| matches!(answer, Err(trouble) if trouble.is_absence()))
}

fn ask(stage: &Stage<'_>) -> Vec<Result<u16, Trouble>> {
    let status = |http: &Http, url: &str| {
        http.ask(Method::GET, url, &[], PATIENCE).map(|response| response.status)
    };
    stage.plan.ready.iter().map(|address| status(&stage.http, &address.with(""))).collect()
}

fn words(stage: &Stage<'_>, answers: &[Result<u16, Trouble>]) -> String {
    let one = |answer: &Result<u16, Trouble>| match answer {
        Ok(status) => format!("status {status}"),
        Err(trouble) => trouble.to_string(),
    };
    let all = stage
        .plan
        .ready
        .iter()
        .zip(answers)
        .map(|(address, answer)| format!("{address}: {}", one(answer)));
    all.collect::<Vec<_>>().join("; ")
}
