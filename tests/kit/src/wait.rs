//! The one loop that polls, its blocking fronts, and the bound on a single step.

use std::panic::Location;
use std::time::Duration;

use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, timeout, timeout_at};

use crate::{Context as _, Error, Outcome, ensure};

/// The longest wait: a limit for hangs, not for slow machines. A wait ends as soon as it can.
pub const PATIENCE: Duration = Duration::from_secs(300);

/// The longest wait of a client for one answer.
pub const ANSWER: Duration = Duration::from_secs(80);

const PAUSE: Duration = Duration::from_millis(20);

/// Bounds one step in time.
pub async fn within<T>(
    limit: Duration,
    what: &str,
    step: impl Future<Output = Outcome<T>>,
) -> Outcome<T> {
    match timeout(limit, step).await {
        Ok(outcome) => outcome.with_context(|| what.to_owned()),
        Err(_) => Err(Error::msg(format!("{what}: nothing within {limit:?}"))),
    }
}

/// The results of all tasks; the first error ends the others.
pub async fn join_all<T: 'static>(mut tasks: JoinSet<Outcome<T>>) -> Outcome<Vec<T>> {
    let mut returned = Vec::new();
    while let Some(task) = tasks.join_next().await {
        returned.push(task??);
    }
    Ok(returned)
}

/// Calls `look` until it succeeds. The error at the limit shows the last error of `look`.
pub async fn wait_for<T>(
    limit: Duration,
    what: &str,
    mut look: impl AsyncFnMut() -> Outcome<T>,
) -> Outcome<T> {
    let deadline = Instant::now() + limit;
    let mut last = String::from("nothing");
    loop {
        match timeout_at(deadline, look()).await {
            Ok(Ok(value)) => return Ok(value),
            Ok(Err(error)) => last = format!("{error:#}"),
            Err(_) => last = format!("{last} (and the last look did not end)"),
        }
        if Instant::now() >= deadline {
            return Err(Error::msg(format!("waited {limit:?} for {what}; last seen: {last}")));
        }
        sleep(PAUSE).await;
    }
}

/// [`wait_for`] in a test that blocks.
#[track_caller]
pub fn wait_for_blocking<T>(what: &str, mut look: impl FnMut() -> Outcome<T>) -> Outcome<T> {
    let caller = Location::caller();
    blocking(wait_for(PATIENCE, what, async || look())).with_context(|| caller.to_string())
}

/// Waits until the condition is true.
#[track_caller]
pub fn until(what: &str, mut condition: impl FnMut() -> bool) -> Outcome {
    wait_for_blocking(what, || {
        ensure!(condition());
        Ok(())
    })
}

/// Runs a step to its end in a test that blocks.
pub fn blocking<T>(step: impl Future<Output = Outcome<T>>) -> Outcome<T> {
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
    // The thread may belong to a runtime already: a look of `wait_for_blocking` may block, too.
    tokio::task::block_in_place(move || runtime.block_on(step))
}
