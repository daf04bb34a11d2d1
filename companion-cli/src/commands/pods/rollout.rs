//! `laststream rollout`

use std::time::{Duration, Instant};

use clap::{Args, ValueEnum};
use laststream_base::time_span::TimeSpan;
use laststream_base::visible;
use laststream_fleet::follower::{Line, RolloutFollower, Verdict};
use laststream_fleet::rollout::Workload;
use laststream_fleet::{Cluster, FleetError, Selection};

use super::block_on;
use crate::args::cluster::ClusterArgs;
use crate::args::pods::ReachArgs;
use crate::commands::{Ended, Exit, Failure, Output, Printer};

/// Follows a rollout until the last stream of its last old pod has ended, and says what holds each
/// pod that is being deleted.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
        laststream rollout deployment/web -n shop\n  \
        laststream rollout statefulset/cart -n shop --timeout 10m\n  \
        laststream rollout daemonset/ingress -n istio-ingress --watch=false\n  \
        laststream rollout rollout/web -n shop\n  \
        laststream rollout deployment/web -n shop --fail-on cut\n\n\
        Exit codes, as those of `kubectl rollout status`: 0 the rollout is complete and no old \
        pod holds a stream, or `--watch=false` is given and it has not failed, 1 it failed, the \
        time-out came first, streams were cut and `--fail-on` says so, or the cluster cannot be \
        asked, 64 wrong arguments.")]
pub(crate) struct Rollout {
    /// What rolls: `deployment/NAME`, `statefulset/NAME`, `daemonset/NAME`, or `rollout/NAME` of
    /// Argo Rollouts.
    #[arg(value_name = "KIND/NAME")]
    workload: Workload,
    #[command(flatten)]
    cluster: ClusterArgs,
    #[command(flatten)]
    reach: ReachArgs,
    /// How long to follow it at most; `0s` means until it ends.
    #[arg(long, value_name = "TIME", default_value = "0s")]
    timeout: TimeSpan,
    /// Follows the rollout; `false` shows it once.
    #[arg(short, long, value_name = "BOOL", default_value_t = true, num_args = 0..=1,
        require_equals = true, default_missing_value = "true", action = clap::ArgAction::Set)]
    watch: bool,
    /// What makes a rollout fail that is complete.
    #[arg(long, value_name = "WHAT", value_enum)]
    fail_on: Option<Loss>,
    /// The format of the lines. `json` prints one object in each line, with `object`, `state` and
    /// `message`, and with `streams` if their number is known.
    #[arg(short, long, value_name = "FORMAT", value_enum, default_value_t)]
    output: Output,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Loss {
    /// An old pod went with streams in flight.
    Cut,
    /// The same, or the last streams of an old pod are not known.
    Unknown,
}

/// The pause between two looks, short enough to see the end within a second.
const PAUSE: Duration = Duration::from_millis(500);

pub(crate) fn run(command: &Rollout, printer: &Printer) -> Ended {
    // kubectl has one exit code for everything that is not a success.
    block_on(follow(command, printer)).map_err(|error| Failure { exit: Exit::Negative, ..error })
}

async fn follow(command: &Rollout, printer: &Printer) -> Result<Exit, FleetError> {
    let began = Instant::now();
    let limit = Some(command.timeout.duration()).filter(|limit| !limit.is_zero());
    let time_left = || limit.map(|limit| limit.saturating_sub(began.elapsed()));
    let Some(cluster) = within(time_left(), command.cluster.connect()).await else {
        return Ok(command.report_timeout(printer));
    };
    let cluster = cluster?;
    let mut follower = RolloutFollower::new(command.workload.clone(), began);
    loop {
        let verdict =
            match within(time_left(), command.look(&cluster, &mut follower, printer)).await {
                None => return Ok(command.report_timeout(printer)),
                Some(Ok(verdict)) => verdict,
                Some(Err(error)) => {
                    command.print(&follower.note_failure(error, Instant::now())?, printer);
                    Verdict::Wait
                }
            };
        match verdict {
            Verdict::Done => return Ok(command.end(&follower, printer)),
            Verdict::Failed(why) => {
                printer.error(&why);
                return Ok(Exit::Negative);
            }
            Verdict::Wait if !command.watch => return Ok(Exit::Fine),
            Verdict::Wait => {}
        }
        if time_left().is_some_and(|left| left.is_zero()) {
            return Ok(command.report_timeout(printer));
        }
        tokio::time::sleep(PAUSE).await;
    }
}

/// `None` if the time is over first: one request may take longer than the whole command may.
async fn within<T>(limit: Option<Duration>, work: impl Future<Output = T>) -> Option<T> {
    match limit {
        Some(limit) => tokio::time::timeout(limit, work).await.ok(),
        None => Some(work.await),
    }
}

impl Rollout {
    async fn look(
        &self,
        cluster: &Cluster,
        follower: &mut RolloutFollower,
        printer: &Printer,
    ) -> Result<Verdict, FleetError> {
        let facts = cluster.rollout(&self.workload).await?;
        let labels = Some(facts.selector.clone());
        let selection = Selection { labels, ports: self.reach.ports(), ..Selection::default() };
        let pods = cluster.pods(&selection).await?;
        self.print(&follower.note_pods(&pods, Instant::now()), printer);
        let old = cluster.ask_old_pods(pods, self.reach.ask_options()).await?;
        let (lines, verdict) = follower.note_look(&facts, &old);
        self.print(&lines, printer);
        Ok(verdict)
    }

    fn print(&self, lines: &[Line], printer: &Printer) {
        for line in lines {
            let json = serde_json::json!(line).to_string();
            printer.answer(self.output, &json, &visible::line(&line.message));
        }
    }

    fn end(&self, follower: &RolloutFollower, printer: &Printer) -> Exit {
        let why = match self.fail_on {
            Some(_) if follower.has_cut() => "streams were cut",
            Some(Loss::Unknown) if follower.has_unknown() => "some streams are not known",
            _ => return Exit::Fine,
        };
        printer.error(&format!("--fail-on: {} is complete, and {why}", self.workload));
        Exit::Negative
    }

    fn report_timeout(&self, printer: &Printer) -> Exit {
        let Self { workload, timeout, .. } = self;
        printer.error(&format!("timed out: {workload} is not done after {timeout}"));
        Exit::Negative
    }
}
