//! `laststream rollout`

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use clap::Args;
use laststream::fleet::bounds::beforehand;
use laststream::fleet::events::Events;
use laststream::fleet::old_pods::{Cut, Ending, Holdings, LastStream, ending};
use laststream::fleet::rollout::{Progress, RolloutFacts, Workload, progress};
use laststream::fleet::{Answer, Cluster, FleetError, Gates, Manner, PodFacts, Selection, table};
use laststream::gate::text::many;
use laststream::time_span::TimeSpan;

use super::args::ReachArgs;
use super::block_on;
use crate::commands::cluster_args::ClusterArgs;
use crate::commands::exit::Exit;
use crate::commands::printer::Printer;

/// Follows a rollout until the last stream of its last old pod has ended, and says what holds each
/// pod that is being deleted.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
        laststream rollout deployment/web -n shop\n  \
        laststream rollout statefulset/cart -n shop --timeout 10m --events\n  \
        laststream rollout daemonset/ingress -n istio-ingress --watch=false\n\n\
        Exit codes, as those of `kubectl rollout status`: 0 the rollout is complete and no old \
        pod holds a stream, or `--watch=false` is given and it has not failed, 1 it failed, the \
        time-out came first, or the cluster cannot be asked, 64 wrong arguments.")]
pub(crate) struct Rollout {
    /// What rolls: `deployment/NAME`, `statefulset/NAME` or `daemonset/NAME`.
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
        default_missing_value = "true", action = clap::ArgAction::Set)]
    watch: bool,
    /// Writes a Kubernetes Event on each pod whose drain has been held for 10 s, or has expired.
    #[arg(long)]
    events: bool,
}

const VERB: &str = "rollout";
/// From one look to the next: the end is seen within a second.
const PAUSE: Duration = Duration::from_millis(500);
/// The same line is printed again after this time.
const REMIND: Duration = Duration::from_secs(30);

pub(in crate::commands) fn run(command: &Rollout, printer: &Printer) -> Exit {
    let done = block_on(printer, async {
        let cluster = command.cluster.connect().await?;
        follow(command, &cluster, printer).await
    });
    // kubectl knows one code for everything that is not a success.
    if done == Exit::Failed { Exit::Found } else { done }
}

async fn follow(
    command: &Rollout,
    cluster: &Cluster,
    printer: &Printer,
) -> Result<Exit, FleetError> {
    let mut follower = Follower::new(command, printer);
    loop {
        let step = match follower.look_in_time(cluster).await {
            // The API server may restart while a rollout goes on.
            Err(error) if follower.may_go_on(&error) => Step::Wait,
            other => other?,
        };
        match step {
            Step::Done => {
                follower.tell_end();
                return Ok(Exit::Fine);
            }
            Step::Failed => return Ok(Exit::Found),
            Step::Wait if !command.watch => return Ok(Exit::Fine),
            Step::Wait | Step::Late => {}
        }
        if follower.left().is_some_and(|left| left.is_zero()) {
            printer.error(&format!(
                "timed out: {} is not done after {}",
                command.workload, command.timeout
            ));
            return Ok(Exit::Found);
        }
        tokio::time::sleep(PAUSE).await;
    }
}

enum Step {
    Wait,
    /// The time-out came first.
    Late,
    Done,
    Failed,
}

/// What has been seen and said so far.
struct Follower<'a> {
    command: &'a Rollout,
    printer: &'a Printer,
    began: Instant,
    answered: Instant,
    said: BTreeMap<String, (String, Instant)>,
    last_stream: LastStream,
    holdings: Holdings,
    /// Streams that were in flight when the proxies of their pods ended.
    cut: u64,
    events: Option<Events>,
    is_first: bool,
}

impl<'a> Follower<'a> {
    fn new(command: &'a Rollout, printer: &'a Printer) -> Self {
        Self {
            command,
            printer,
            began: Instant::now(),
            answered: Instant::now(),
            said: BTreeMap::new(),
            last_stream: LastStream::default(),
            holdings: Holdings::default(),
            cut: 0,
            events: command.events.then(Events::default),
            is_first: true,
        }
    }

    /// The time that is left, if there is a limit.
    fn left(&self) -> Option<Duration> {
        let limit = self.command.timeout.duration();
        (!limit.is_zero()).then(|| limit.saturating_sub(self.began.elapsed()))
    }

    /// One request may take longer than the whole command.
    async fn look_in_time(&mut self, cluster: &Cluster) -> Result<Step, FleetError> {
        match self.left() {
            Some(left) => {
                let look = tokio::time::timeout(left, self.look(cluster)).await;
                look.unwrap_or(Ok(Step::Late))
            }
            None => self.look(cluster).await,
        }
    }

    fn may_go_on(&mut self, error: &FleetError) -> bool {
        let goes_on = error.may_pass() && !self.is_first && self.answered.elapsed() < REMIND;
        if goes_on {
            self.say("", "away", &error.to_string());
        }
        goes_on
    }

    async fn look(&mut self, cluster: &Cluster) -> Result<Step, FleetError> {
        let workload = &self.command.workload;
        let facts = cluster.rollout(VERB, workload).await?;
        let pods = cluster.pods(VERB, &self.selection(&facts)).await?;
        self.answered = Instant::now();
        if std::mem::take(&mut self.is_first) {
            beforehand(&pods).iter().for_each(|line| self.printer.stdout(line));
        }
        let ending: Vec<_> = pods.into_iter().filter(|pod| pod.terminating).collect();
        let holds = self.look_at_old_pods(cluster, ending).await?;
        match progress(workload, &facts) {
            Progress::Failed(why) => {
                self.printer.error(&why);
                Ok(Step::Failed)
            }
            Progress::Waiting(what) => {
                self.say("", &what, &what);
                Ok(Step::Wait)
            }
            Progress::Done if holds => {
                let text = format!("{workload}: all new pods are available; old pods still end");
                self.say("", &text, &text);
                Ok(Step::Wait)
            }
            Progress::Done => Ok(Step::Done),
        }
    }

    fn selection(&self, facts: &RolloutFacts) -> Selection {
        let labels = Some(facts.selector.clone());
        Selection { labels, ports: self.command.reach.ports(), ..Selection::default() }
    }

    /// Whether any of them holds the end of the rollout.
    async fn look_at_old_pods(
        &mut self,
        cluster: &Cluster,
        pods: Vec<PodFacts>,
    ) -> Result<bool, FleetError> {
        let mut holds = self.tell_unknown(&pods);
        let manner = Manner { gates: Gates::Only, ..self.command.reach.manner(VERB) };
        let survey = cluster.survey(pods, manner).await;
        if let Some(failure) = survey.failure {
            return Err(failure);
        }
        for (pod, answer) in &survey.pods {
            self.last_stream.note(answer, Instant::now());
            holds |= self.tell_pod(pod, answer);
        }
        for Cut { pod, streams } in self.holdings.note(&survey.pods) {
            self.cut += streams;
            let went = format!("pod/{pod}: went with {} in flight", many(streams, "stream"));
            self.printer.stdout(&went);
        }
        if let Some(events) = &mut self.events
            && let Err(error) = events.note_all(cluster, &survey.pods).await
        {
            self.printer.warning(&error);
        }
        Ok(holds)
    }

    /// Pods whose proxy has another name: nothing tells whether their streams have ended.
    fn tell_unknown(&mut self, pods: &[PodFacts]) -> bool {
        let unknown: Vec<_> = pods.iter().filter(|pod| pod.proxy.is_none()).collect();
        for pod in &unknown {
            let name = format!("pod/{}", pod.name);
            let why = "no container of it is a proxy by name";
            self.say(&name, "unknown", &unknown_line(&name, why));
        }
        !unknown.is_empty()
    }

    fn tell_pod(&mut self, pod: &PodFacts, answer: &Answer) -> bool {
        let name = format!("pod/{}", pod.name);
        let ending = ending(pod, answer);
        match ending {
            Ending::Holds => {
                self.say(&name, &table::held_key(answer), &held_line(&name, answer));
            }
            Ending::Over(_) => self.say(&name, "over", &format!("{name}: nothing holds it")),
            Ending::GaveUp(holding) => {
                let streams = many(holding, "stream");
                let what = format!("{name}: the gate gave up with {streams} in flight: ");
                self.say(&name, "gave up", &(what + &table::held(answer, 3)));
            }
            Ending::Unknown => {
                let why = match answer {
                    Answer::Silent(why) => why.as_str(),
                    _ => "it has no gate",
                };
                self.say(&name, "unknown", &unknown_line(&name, why));
            }
        }
        ending.holds()
    }

    /// Prints a line if it is new, or old enough to be a reminder.
    fn say(&mut self, subject: &str, key: &str, text: &str) {
        let now = Instant::now();
        let is_known = self
            .said
            .get(subject)
            .is_some_and(|(said, at)| said == key && now.duration_since(*at) < REMIND);
        if !is_known {
            self.printer.stdout(text);
            self.said.insert(subject.to_owned(), (key.to_owned(), now));
        }
    }

    fn tell_end(&self) {
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
        let cut = match self.cut {
            0 => String::new(),
            cut => format!("; their pods went with {} in flight", many(cut, "stream")),
        };
        self.printer.stdout(&format!("{workload} successfully rolled out; {end}{cut}"));
    }
}

fn unknown_line(name: &str, why: &str) -> String {
    format!("{name}: its streams are not known ({why}); waiting for its end")
}

fn held_line(name: &str, answer: &Answer) -> String {
    let Answer::Detail(detail) = answer else { return name.to_owned() };
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
        table::held(answer, 3)
    )
}
