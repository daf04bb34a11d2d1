//! `laststream wait` for pods.

use std::time::{Duration, Instant};

use laststream_base::time_span::TimeSpan;
use laststream_fleet::drains::{PodOutcome, PodWait};
use laststream_fleet::{Answer, Cluster, FleetError, PodFacts};

use super::patience::{Lines, may_answer_again};
use super::{block_on, report, targets};
use crate::args::pods::PodArgs;
use crate::commands::wait::WaitTime;
use crate::commands::{Ended, Output, Printer};

/// The shortest interval, because each look costs the API server a request for each pod.
const SHORTEST: Duration = Duration::from_secs(1);

/// The least time for one look, so that a time-out of zero asks once.
const LOOK: Duration = Duration::from_secs(6);

pub(in crate::commands) fn run(
    pods: &PodArgs,
    time: &WaitTime,
    output: Output,
    printer: &Printer,
) -> Ended {
    block_on(async {
        let cluster = pods.cluster.connect().await?;
        let (found, mut outcomes) = targets(pods, &cluster).await?;
        outcomes.extend(Follower::new(pods, time, printer).follow(&cluster, found).await?);
        Ok(report(&outcomes, output, printer))
    })
}

/// The wait for the drains of pods.
struct Follower<'a> {
    pods: &'a PodArgs,
    time: &'a WaitTime,
    printer: &'a Printer,
    began: Instant,
    answered: Instant,
    said: Lines,
}

impl<'a> Follower<'a> {
    fn new(pods: &'a PodArgs, time: &'a WaitTime, printer: &'a Printer) -> Self {
        let now = Instant::now();
        Self { pods, time, printer, began: now, answered: now, said: Lines::default() }
    }

    /// Looks at the pods until all drains are over, or the time is. The outcomes come in this
    /// order; those of drains that are not over come last.
    async fn follow(
        mut self,
        cluster: &Cluster,
        found: Vec<PodFacts>,
    ) -> Result<Vec<PodOutcome>, FleetError> {
        let mut waits: Vec<PodWait> = found.iter().cloned().map(PodWait::new).collect();
        let mut outcomes = Vec::new();
        let mut found = Some(found);
        loop {
            let began = Instant::now();
            let timeout = self.time.timeout.duration();
            let left = timeout.saturating_sub(self.began.elapsed()).max(LOOK);
            let look = self.look(cluster, found.take(), &waits);
            let Ok(seen) = tokio::time::timeout(left, look).await else { break };
            match seen {
                Ok(seen) => {
                    self.answered = Instant::now();
                    waits.retain_mut(|wait| {
                        let of_pod = seen.iter().find(|(pod, _)| pod.uid == wait.pod.uid);
                        let outcome = wait.note(of_pod, began);
                        let is_over = outcome.is_some();
                        outcomes.extend(outcome);
                        !is_over
                    });
                }
                // The API server may restart while drains go on.
                Err(error) if may_answer_again(&error, self.answered.elapsed()) => {
                    self.say("", &error.to_string());
                }
                Err(error) => return Err(error),
            }
            let left = timeout.saturating_sub(self.began.elapsed());
            if waits.is_empty() || left.is_zero() {
                break;
            }
            for wait in &waits {
                self.say(&wait.pod.name, &format!("pod/{}: {}", wait.pod.name, wait.progress()));
            }
            tokio::time::sleep(self.time.interval.duration().max(SHORTEST).min(left)).await;
        }
        outcomes.extend(waits.iter().map(|wait| late(wait, self.time.timeout)));
        Ok(outcomes)
    }

    /// The pods that are still waited for, each with its gate's answer.
    async fn look(
        &self,
        cluster: &Cluster,
        found: Option<Vec<PodFacts>>,
        waits: &[PodWait],
    ) -> Result<Vec<(PodFacts, Answer)>, FleetError> {
        let mut pods = match found {
            Some(pods) => pods,
            None => cluster.pods(&self.pods.selection()).await?,
        };
        pods.retain(|pod| waits.iter().any(|wait| wait.pod.uid == pod.uid));
        cluster.ask_gates(pods, self.pods.reach.ask_options()).await
    }

    /// Prints a line about the progress if it is new, or old enough to be a reminder.
    fn say(&mut self, subject: &str, line: &str) {
        if self.said.is_due(subject, line, Instant::now()) {
            self.printer.status_line(line);
        }
    }
}

fn late(wait: &PodWait, timeout: TimeSpan) -> PodOutcome {
    let when = match timeout.duration() {
        Duration::ZERO => String::new(),
        _ => format!(" after {timeout}"),
    };
    PodOutcome::failed(&wait.pod, format!("its drain is not over{when}: {}", wait.progress()))
}
