//! `laststream wait` for pods.

use std::time::{Duration, Instant};

use laststream_base::time_span::TimeSpan;
use laststream_fleet::waits::PodWaits;
use laststream_fleet::{Answer, Cluster, FleetError, PodFacts};

use super::{block_on, report, targets};
use crate::args::pods::PodArgs;
use crate::commands::{Ended, Output, Printer};

/// The shortest interval, because each look costs the API server a request for each pod.
const SHORTEST: Duration = Duration::from_secs(1);

/// The least time for one look, so that a time-out of zero asks once.
const LOOK: Duration = Duration::from_secs(6);

/// The results come as the drains end; those of drains that are not over come last.
pub(crate) fn run(
    args: &PodArgs,
    [timeout, interval]: [TimeSpan; 2],
    output: Output,
    printer: &Printer,
) -> Ended {
    block_on(async {
        let cluster = args.cluster.connect().await?;
        let (pods, mut outcomes) = targets(args, &cluster).await?;
        let began = Instant::now();
        let time_left = || timeout.duration().saturating_sub(began.elapsed());
        let mut waits = PodWaits::new(&pods, began);
        let mut first_pods = Some(pods);
        loop {
            let start = Instant::now();
            let look = look(args, &cluster, first_pods.take(), &waits);
            let Ok(look) = tokio::time::timeout(time_left().max(LOOK), look).await else { break };
            let now = Instant::now();
            let mut lines = Vec::new();
            match look {
                Ok(answers) => outcomes.extend(waits.note(&answers, start, now)),
                Err(error) => lines.extend(waits.note_failure(error, now)?),
            }
            let is_over = waits.are_over() || time_left().is_zero();
            if !is_over {
                lines.extend(waits.progress(now));
            }
            lines.iter().for_each(|line| printer.status_line(line));
            if is_over {
                break;
            }
            tokio::time::sleep(interval.duration().max(SHORTEST).min(time_left())).await;
        }
        outcomes.extend(waits.late(timeout));
        Ok::<_, FleetError>(report(&outcomes, output, printer))
    })
}

/// The pods that are waited for, each with its gate's answer.
async fn look(
    args: &PodArgs,
    cluster: &Cluster,
    listed: Option<Vec<PodFacts>>,
    waits: &PodWaits,
) -> Result<Vec<(PodFacts, Answer)>, FleetError> {
    let mut pods = match listed {
        Some(pods) => pods,
        None => cluster.pods(&args.selection()).await?,
    };
    pods.retain(|pod| waits.has(pod));
    cluster.ask_gates(pods, args.reach.ask_options()).await
}
