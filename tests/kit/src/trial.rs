//! Runs one trial: a separate runtime, a deadline, and the notes that a failure prints.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::time::timeout;

use crate::outcome::MachineLacks;
use crate::{Context as _, Error, Outcome, locked};

tokio::task_local! {
    static NOTES: Arc<Notes>;
}

/// Runs one trial. The error of a failure has the notes of the trial's processes, such as the end
/// of Envoy's log, and the reason behind them: the last lines are what people see.
pub fn block_on<T>(deadline: Duration, trial: impl Future<Output = Outcome<T>>) -> Outcome<T> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .context("starting a runtime")?;
    let notes = Arc::new(Notes::default());
    let trial = NOTES.scope(Arc::clone(&notes), trial);
    let outcome = runtime.block_on(async { timeout(deadline, trial).await });
    runtime.shutdown_background();
    match outcome {
        Ok(Ok(value)) => Ok(value),
        Ok(Err(error)) if error.is::<MachineLacks>() => Err(error),
        Ok(Err(error)) => Err(Error::msg(format!("{}{error:#}", notes.text()))),
        Err(_) => {
            let text = notes.text();
            Err(Error::msg(format!("{text}the trial did not end within {deadline:?}")))
        }
    }
}

/// The notes that a failing trial prints before its reason.
#[derive(Default)]
pub struct Notes(Mutex<Vec<String>>);

impl Notes {
    /// The notes of the current trial; outside of a trial, new ones that are never printed.
    pub fn current() -> Arc<Self> {
        NOTES.try_with(Arc::clone).unwrap_or_default()
    }

    pub fn add(&self, note: String) {
        locked(&self.0).push(note);
    }

    fn text(&self) -> String {
        locked(&self.0).iter().map(|note| format!("{note}\n\n")).collect()
    }
}
