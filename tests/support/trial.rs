//! Running one trial: a runtime of its own, a deadline it cannot outlive, and waits that say what
//! they waited for.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::time::{Instant, sleep, timeout, timeout_at};

use super::failure::{Context, Failure, Outcome};

/// How often a wait looks again.
const LOOK_AGAIN: Duration = Duration::from_millis(20);

tokio::task_local! {
    static NOTES: Arc<Notes>;
}

/// Runs one trial. A failure carries what the trial's processes left as notes, such as the end of
/// Envoy's log.
pub(crate) fn block_on<T>(
    deadline: Duration,
    trial: impl Future<Output = Outcome<T>>,
) -> Outcome<T> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .context("starting a runtime")?;
    let notes = Arc::new(Notes::default());
    let outcome =
        runtime.block_on(NOTES.scope(Arc::clone(&notes), async { timeout(deadline, trial).await }));
    runtime.shutdown_background();
    let failure = match outcome {
        Ok(Ok(value)) => return Ok(value),
        Ok(Err(failure)) => failure,
        Err(_) => Failure::new(format!("the trial did not end within {deadline:?}")),
    };
    Err(failure.with_note(notes.text()))
}

/// What a failing trial prints after its reason.
#[derive(Default)]
pub(crate) struct Notes(Mutex<Vec<String>>);

impl Notes {
    /// Those of the trial that runs here; a stray set where there is none.
    pub(crate) fn current() -> Arc<Self> {
        NOTES.try_with(Arc::clone).unwrap_or_default()
    }

    pub(crate) fn add(&self, note: String) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(note);
    }

    fn text(&self) -> String {
        self.0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .iter()
            .map(|note| format!("\n\n{note}"))
            .collect()
    }
}

/// Bounds one step in time.
pub(crate) async fn within<T>(
    limit: Duration,
    what: &str,
    step: impl Future<Output = Outcome<T>>,
) -> Outcome<T> {
    match timeout(limit, step).await {
        Ok(outcome) => outcome.context(what),
        Err(_) => Err(Failure::new(format!("{what}: nothing within {limit:?}"))),
    }
}

/// Looks until `look` succeeds; its last failure is reported as what was seen last.
pub(crate) async fn wait_for<T>(
    limit: Duration,
    what: &str,
    mut look: impl AsyncFnMut() -> Outcome<T>,
) -> Outcome<T> {
    let deadline = Instant::now() + limit;
    let mut last = String::from("nothing");
    loop {
        match timeout_at(deadline, look()).await {
            Ok(Ok(value)) => return Ok(value),
            Ok(Err(failure)) => last = failure.to_string(),
            Err(_) => last = format!("{last} (and the last look did not end)"),
        }
        if Instant::now() >= deadline {
            return Err(Failure::new(format!("waited {limit:?} for {what}; last seen: {last}")));
        }
        sleep(LOOK_AGAIN).await;
    }
}
