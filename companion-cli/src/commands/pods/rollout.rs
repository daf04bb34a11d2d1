//! `laststream rollout`

use std::time::{Duration, Instant};

use clap::Args;
use k8s_openapi::jiff::Timestamp;
use laststream_base::time_span::TimeSpan;
use laststream_fleet::cut_pods::{Cut, CutPods};
use laststream_fleet::old_pods::{DrainResults, LastStreamClock, PodDrainResult};
use laststream_fleet::rollout::{Progress, Workload, progress};
use laststream_fleet::time_to_drain::beforehand;
use laststream_fleet::{Answer, Cluster, Detail, FleetError, PodFacts, Selection, table};
use laststream_gate::text::{if_any, many, uncounted};

use super::block_on;
use super::patience::{Lines, may_answer_again};
use super::rollout_line::Line;
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
        laststream rollout rollout/web -n shop\n\n\
        Exit codes, as those of `kubectl rollout status`: 0 the rollout is complete and no old \
        pod holds a stream, or `--watch=false` is given and it has not failed, 1 it failed, the \
        time-out came first, or the cluster cannot be asked, 64 wrong arguments.")]
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
    /// The format of the lines. `json` prints one object in each line, with `object`, `state` and
    /// `message`, and with `streams` if their number is known.
    #[arg(short, long, value_name = "FORMAT", value_enum, default_value_t)]
    output: Output,
}

/// The pause between two looks, short enough to see the end within a second.
const PAUSE: Duration = Duration::from_millis(500);

pub(crate) fn run(command: &Rollout, printer: &Printer) -> Ended {
    // kubectl has one exit code for everything that is not a success.
    block_on(follow(command, printer)).map_err(|error| Failure { exit: Exit::Negative, ..error })
}

async fn follow(command: &Rollout, printer: &Printer) -> Result<Exit, FleetError> {
    let mut follower = Follower::new(command, printer);
    let Some(cluster) = within(follower.left(), command.cluster.connect()).await else {
        return Ok(follower.report_timeout());
    };
    let cluster = cluster?;
    loop {
        let step = match within(follower.left(), follower.evaluate(&cluster)).await {
            None => return Ok(follower.report_timeout()),
            // The API server may restart while a rollout goes on.
            Some(Err(error)) if follower.may_go_on(&error) => Step::Wait,
            Some(step) => step?,
        };
        match step {
            Step::Done => {
                follower.report_end();
                return Ok(Exit::Fine);
            }
            Step::Failed => return Ok(Exit::Negative),
            Step::Wait if !command.watch => return Ok(Exit::Fine),
            Step::Wait => {}
        }
        if follower.left().is_some_and(|left| left.is_zero()) {
            return Ok(follower.report_timeout());
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

enum Step {
    Wait,
    Done,
    Failed,
}

/// The state of the rollout, and the lines that were printed.
struct Follower<'a> {
    command: &'a Rollout,
    printer: &'a Printer,
    began: Instant,
    answered: Instant,
    said: Lines,
    last_stream: LastStreamClock,
    endings: DrainResults,
    cut_pods: CutPods,
    /// Streams that were in flight when the proxies of their pods ended.
    cut: u64,
    /// Old pods that are not waited for, at the last look.
    lost: u64,
    /// Old pods that have gone, and whose last streams were not known.
    unknown: u64,
    is_first: bool,
}

impl<'a> Follower<'a> {
    fn new(command: &'a Rollout, printer: &'a Printer) -> Self {
        Self {
            command,
            printer,
            began: Instant::now(),
            answered: Instant::now(),
            said: Lines::default(),
            last_stream: LastStreamClock::default(),
            endings: DrainResults::default(),
            cut_pods: CutPods::default(),
            cut: 0,
            lost: 0,
            unknown: 0,
            is_first: true,
        }
    }

    /// The time that is left, if there is a limit.
    fn left(&self) -> Option<Duration> {
        let limit = self.command.timeout.duration();
        (!limit.is_zero()).then(|| limit.saturating_sub(self.began.elapsed()))
    }

    fn report_timeout(&self) -> Exit {
        let Rollout { workload, timeout, .. } = self.command;
        self.printer.error(&format!("timed out: {workload} is not done after {timeout}"));
        Exit::Negative
    }

    fn may_go_on(&mut self, error: &FleetError) -> bool {
        let goes_on = !self.is_first && may_answer_again(error, self.answered.elapsed());
        if goes_on {
            self.say("away", &self.of_workload("waiting", error.to_string()));
        }
        goes_on
    }

    async fn evaluate(&mut self, cluster: &Cluster) -> Result<Step, FleetError> {
        let workload = &self.command.workload;
        let facts = cluster.rollout(workload).await?;
        let labels = Some(facts.selector.clone());
        let ports = self.command.reach.ports();
        let pods = cluster.pods(&Selection { labels, ports, ..Selection::default() }).await?;
        self.answered = Instant::now();
        if std::mem::take(&mut self.is_first) {
            let lines = beforehand(&pods);
            lines.into_iter().for_each(|line| self.print(&self.of_workload("beforehand", line)));
        }
        let ending: Vec<_> = pods.into_iter().filter(|pod| pod.terminating).collect();
        let holds = self.evaluate_old_pods(cluster, ending).await?;
        match progress(workload, &facts) {
            Progress::Failed(why) => {
                self.printer.error(&why);
                Ok(Step::Failed)
            }
            Progress::Waiting(what) => {
                self.say(&what, &self.of_workload("waiting", what.clone()));
                Ok(Step::Wait)
            }
            Progress::Done if holds => {
                let text = format!("{workload}: all new pods are available; old pods still end");
                self.say(&text, &self.of_workload("waiting", text.clone()));
                Ok(Step::Wait)
            }
            Progress::Done => Ok(Step::Done),
        }
    }

    /// Surveys the old pods. Returns whether one of them holds the end of the rollout.
    async fn evaluate_old_pods(
        &mut self,
        cluster: &Cluster,
        pods: Vec<PodFacts>,
    ) -> Result<bool, FleetError> {
        self.lost = 0;
        let (pods, others): (Vec<_>, Vec<_>) =
            pods.into_iter().partition(|pod| pod.proxy.is_some());
        let mut holds = self.report_pods_without_proxy(&others);
        let began = Instant::now();
        let mut answers = cluster.ask_gates(pods, self.command.reach.ask_options()).await?;
        for (pod, answer) in &answers {
            self.last_stream.note(&pod.uid, answer, Instant::now());
            holds |= self.report_pod(pod, answer);
        }
        answers.extend(others.into_iter().map(|pod| (pod, Answer::Unasked)));
        for cut in self.cut_pods.note(&answers, began) {
            self.report_cut(&cut);
        }
        Ok(holds)
    }

    /// Reports pods of which no container is a proxy by name, so the end of their streams cannot be
    /// seen. Returns whether one of them holds the end of the rollout.
    fn report_pods_without_proxy(&mut self, pods: &[PodFacts]) -> bool {
        let mut holds = false;
        for pod in pods {
            let is_lost = pod.is_overdue(Timestamp::now());
            self.report_unknown_streams(pod, "no container of it is a proxy by name", is_lost);
            holds |= !is_lost;
        }
        holds
    }

    fn report_unknown_streams(&mut self, pod: &PodFacts, why: &str, is_lost: bool) {
        let name = format!("pod/{}", pod.name);
        let what = format!("{name}: its streams are not known ({why})");
        if is_lost {
            self.lost += 1;
            let what = format!("{what}; its grace period is long over, so it is not waited for");
            self.say("lost", &Line::new(&name, "lost", what));
        } else {
            let what = format!("{what}; waiting for its end");
            self.say("unknown", &Line::new(&name, "unknown", what));
        }
    }

    fn report_cut(&mut self, Cut { pod, streams }: &Cut) {
        let how = match streams {
            Some(streams) => {
                self.cut = self.cut.saturating_add(*streams);
                format!("with {} in flight", many(*streams, "stream"))
            }
            None => {
                self.unknown += 1;
                "and its last streams are not known".to_owned()
            }
        };
        let name = format!("pod/{pod}");
        let line = Line::new(&name, "cut", format!("{name}: went {how}"));
        self.print(&line.with_streams(*streams));
    }

    fn report_pod(&mut self, pod: &PodFacts, answer: &Answer) -> bool {
        let name = format!("pod/{}", pod.name);
        let ending = self.endings.note(pod, answer, Timestamp::now());
        match (ending, answer) {
            (PodDrainResult::Holds, Answer::Detail(detail)) => {
                let line = Line::new(&name, "held", held_line(&name, detail));
                let line = line.with_streams(detail.status.held_streams());
                self.say(&table::held_key(detail), &line);
            }
            (PodDrainResult::Over(_), _) => {
                self.say("over", &Line::new(&name, "over", format!("{name}: nothing holds it")));
            }
            (PodDrainResult::GaveUp(holding), Answer::Detail(detail)) => {
                let streams = many(holding, "stream");
                let what = format!("{name}: the gate gave up with {streams} in flight: ");
                let line = Line::new(&name, "gave-up", what + &table::held(detail, 3));
                self.say("gave up", &line.with_streams(Some(holding)));
            }
            _ => {
                let why = match answer {
                    Answer::Silent(why) => why.clone(),
                    Answer::Detail(detail) => uncounted(&detail.status.count),
                    _ => "it has no gate".to_owned(),
                };
                self.report_unknown_streams(pod, &why, ending == PodDrainResult::Lost);
            }
        }
        ending.holds()
    }

    /// Prints a line if its key is new, or the line before is old enough for a reminder.
    fn say(&mut self, key: &str, line: &Line) {
        if self.said.is_due(&line.object, key, Instant::now()) {
            self.print(line);
        }
    }

    fn print(&self, line: &Line) {
        line.print(self.command.output, self.printer);
    }

    fn of_workload(&self, state: &'static str, message: String) -> Line {
        Line::new(&self.command.workload.to_string(), state, message)
    }

    fn report_end(&self) {
        let workload = &self.command.workload;
        let end = match self
            .last_stream
            .ended()
            .and_then(|at| at.checked_duration_since(self.began))
        {
            Some(after) => {
                format!("the last stream of its old pods ended after {:.1} s", after.as_secs_f64())
            }
            None => "no old pod holds a stream".to_owned(),
        };
        let cut = format!("; their pods went with {} in flight", many(self.cut, "stream"));
        let cut = if_any(self.cut, cut);
        let lost = self.lost + self.unknown;
        let lost =
            if_any(lost, format!("; the streams of {} are not known", many(lost, "old pod")));
        let message = format!("{workload} successfully rolled out; {end}{cut}{lost}");
        self.print(&self.of_workload("done", message));
    }
}

fn held_line(name: &str, detail: &Detail) -> String {
    let status = &detail.status;
    if status.state == "serving" {
        return format!("{name}: deleted, and its gate still serves");
    }
    let left = status.deadline_in_ms.map(|millis| format!(", {} s left", millis / 1000));
    format!(
        "{name}: {} for {} s{}, {}",
        status.state,
        status.draining_ms / 1000,
        left.unwrap_or_default(),
        table::held(detail, 3)
    )
}
