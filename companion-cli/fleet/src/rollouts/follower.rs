//! Follows a rollout, look by look: what holds it, which lines are printed, and how it ends. Pure.

use std::time::Instant;

use k8s_openapi::jiff::Timestamp;
use serde::Serialize;

use crate::answers::answer::{Answer, Detail};
use crate::api::error::FleetError;
use crate::drains::cut_pods::{Cut, CutPods};
use crate::drains::reminders::{Reminders, may_answer_again};
use crate::pods::facts::PodFacts;
use crate::pods::time_to_drain::beforehand;
use crate::rollouts::old_pods::{DrainResults, LastStreamClock, PodDrainResult};
use crate::rollouts::rollout::{Progress, RolloutFacts, Workload, progress};
use laststream_gate::text::{if_any, many, uncounted};

/// A line about an object of the rollout: the workload, or one of its pods.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Line {
    /// Such as `pod/web-1`.
    object: String,
    state: &'static str,
    /// Streams that hold the pod, or that were cut.
    #[serde(skip_serializing_if = "Option::is_none")]
    streams: Option<u64>,
    pub message: String,
}

impl Line {
    fn new(object: &str, state: &'static str, message: String) -> Self {
        Self { object: object.to_owned(), state, streams: None, message }
    }

    fn with_streams(self, streams: Option<u64>) -> Self {
        Self { streams, ..self }
    }
}

/// What a look means for the command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// The rollout goes on, or old pods hold streams.
    Wait,
    Done,
    /// The rollout has failed, and why.
    Failed(String),
}

/// The deleted pods with the answers of their gates.
#[derive(Debug)]
pub struct OldPods {
    pub pods: Vec<(PodFacts, Answer)>,
    /// When the gates were asked, and when the last one had answered.
    pub asked: Instant,
    pub answered: Instant,
    pub time: Timestamp,
}

/// The state of a rollout, and the lines about it.
#[derive(Debug)]
pub struct RolloutFollower {
    workload: Workload,
    began: Instant,
    /// The time of the API server's last answer; `None` before the first.
    answered: Option<Instant>,
    reminders: Reminders,
    last_stream: LastStreamClock,
    drains: DrainResults,
    cut_pods: CutPods,
    /// Streams that were in flight when the proxies of their pods ended.
    cut: u64,
    /// Old pods that are not waited for, at the last look.
    lost: u64,
    /// Old pods that have gone, and whose last streams were not known.
    unknown: u64,
    /// The lines that are not printed yet.
    lines: Vec<Line>,
}

impl RolloutFollower {
    pub fn new(workload: Workload, began: Instant) -> Self {
        Self {
            workload,
            began,
            answered: None,
            reminders: Reminders::default(),
            last_stream: LastStreamClock::default(),
            drains: DrainResults::default(),
            cut_pods: CutPods::default(),
            cut: 0,
            lost: 0,
            unknown: 0,
            lines: Vec::new(),
        }
    }

    /// Whether streams were cut, as far as the looks have seen.
    pub fn has_cut(&self) -> bool {
        self.cut > 0
    }

    /// Whether old pods went, or are no longer waited for, whose last streams are not known.
    pub fn has_unknown(&self) -> bool {
        self.lost + self.unknown > 0
    }

    /// Records that the API server has listed the pods. The first time, the lines say how long
    /// their streams have after a deletion.
    pub fn note_pods(&mut self, pods: &[PodFacts], now: Instant) -> Vec<Line> {
        if self.answered.replace(now).is_none() {
            let lines = beforehand(pods).into_iter();
            let lines: Vec<_> = lines.map(|line| self.of_workload("beforehand", line)).collect();
            self.lines.extend(lines);
        }
        self.take_lines()
    }

    /// Records a failed look. Returns the lines to print.
    ///
    /// # Errors
    /// The rollout cannot be followed, because the API server will not answer soon.
    pub fn note_failure(
        &mut self,
        error: FleetError,
        now: Instant,
    ) -> Result<Vec<Line>, FleetError> {
        // The API server may restart while a rollout goes on.
        let silence = self.answered.map(|answered| now.duration_since(answered));
        if !silence.is_some_and(|silence| may_answer_again(&error, silence)) {
            return Err(error);
        }
        self.say("away", self.of_workload("waiting", error.to_string()), now);
        Ok(self.take_lines())
    }

    /// Records a look at the workload and at the gates of its old pods.
    pub fn note_look(&mut self, facts: &RolloutFacts, old: &OldPods) -> (Vec<Line>, Verdict) {
        let is_held = self.note_old_pods(old);
        let verdict = match progress(&self.workload, facts) {
            Progress::Failed(why) => Verdict::Failed(why),
            Progress::Waiting(what) => self.wait(what, old.answered),
            Progress::Done if is_held => {
                let workload = &self.workload;
                let message = format!("{workload}: all new pods are available; old pods still end");
                self.wait(message, old.answered)
            }
            Progress::Done => {
                self.lines.push(self.of_workload("done", self.end()));
                Verdict::Done
            }
        };
        (self.take_lines(), verdict)
    }

    fn wait(&mut self, what: String, now: Instant) -> Verdict {
        self.say(&what.clone(), self.of_workload("waiting", what), now);
        Verdict::Wait
    }

    /// Returns whether one of the old pods holds the end of the rollout.
    fn note_old_pods(&mut self, old: &OldPods) -> bool {
        self.lost = 0;
        let mut is_held = false;
        for (pod, answer) in &old.pods {
            self.last_stream.note(&pod.uid, answer, old.answered);
            is_held |= match pod.proxy {
                Some(_) => self.note_pod(pod, answer, old),
                // The end of its streams cannot be seen.
                None => {
                    let is_lost = pod.is_overdue(old.time);
                    self.say_unknown(pod, "no container of it is a proxy by name", is_lost, old);
                    !is_lost
                }
            };
        }
        for cut in self.cut_pods.note(&old.pods, old.asked) {
            self.note_cut(&cut);
        }
        is_held
    }

    fn note_pod(&mut self, pod: &PodFacts, answer: &Answer, old: &OldPods) -> bool {
        let name = format!("pod/{}", pod.name);
        let result = self.drains.note(pod, answer, old.time);
        match (result, answer) {
            (PodDrainResult::Holds, Answer::Detail(detail)) => {
                let line = Line::new(&name, "held", held_line(&name, detail));
                let line = line.with_streams(detail.status.held_streams());
                self.say(&detail.held_key(), line, old.answered);
            }
            (PodDrainResult::Over, _) => {
                let line = Line::new(&name, "over", format!("{name}: nothing holds it"));
                self.say("over", line, old.answered);
            }
            (PodDrainResult::GaveUp(holding), Answer::Detail(detail)) => {
                let streams = many(holding, "stream");
                let sentence = format!("{name}: the gate gave up with {streams} in flight: ");
                let line = Line::new(&name, "gave-up", sentence + &detail.held());
                self.say("gave up", line.with_streams(Some(holding)), old.answered);
            }
            _ => {
                let why = match answer {
                    Answer::Silent(why) => why.clone(),
                    Answer::Detail(detail) => uncounted(&detail.status.count),
                    _ => "it has no gate".to_owned(),
                };
                self.say_unknown(pod, &why, result == PodDrainResult::Lost, old);
            }
        }
        result.holds()
    }

    fn say_unknown(&mut self, pod: &PodFacts, why: &str, is_lost: bool, old: &OldPods) {
        let name = format!("pod/{}", pod.name);
        let (state, end) = if is_lost {
            self.lost += 1;
            ("lost", "its grace period is long over, so it is not waited for")
        } else {
            ("unknown", "waiting for its end")
        };
        let line = format!("{name}: its streams are not known ({why}); {end}");
        self.say(state, Line::new(&name, state, line), old.answered);
    }

    fn note_cut(&mut self, Cut { pod, streams }: &Cut) {
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
        self.lines.push(line.with_streams(*streams));
    }

    /// Adds a line if its key is new, or the line before is old enough for a reminder.
    fn say(&mut self, key: &str, line: Line, now: Instant) {
        if self.reminders.is_due(&line.object, key, now) {
            self.lines.push(line);
        }
    }

    fn of_workload(&self, state: &'static str, message: String) -> Line {
        Line::new(&self.workload.to_string(), state, message)
    }

    fn take_lines(&mut self) -> Vec<Line> {
        std::mem::take(&mut self.lines)
    }

    fn end(&self) -> String {
        let last = self.last_stream.ended().and_then(|at| at.checked_duration_since(self.began));
        let end = match last {
            Some(after) => {
                format!("the last stream of its old pods ended after {:.1} s", after.as_secs_f64())
            }
            None => "no old pod holds a stream".to_owned(),
        };
        let cut = format!("; their pods went with {} in flight", many(self.cut, "stream"));
        let cut = if_any(self.cut, cut);
        let unknown = self.lost + self.unknown;
        let pods = many(unknown, "old pod");
        let unknown = if_any(unknown, format!("; the streams of {pods} are not known"));
        format!("{} successfully rolled out; {end}{cut}{unknown}", self.workload)
    }
}

fn held_line(name: &str, detail: &Detail) -> String {
    let status = &detail.status;
    if status.state == "serving" {
        return format!("{name}: deleted, and its gate still serves");
    }
    let deadline = status.deadline_in_ms.map(|millis| format!(", {} s left", millis / 1000));
    format!(
        "{name}: {} for {} s{}, {}",
        status.state,
        status.draining_ms / 1000,
        deadline.unwrap_or_default(),
        detail.held()
    )
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::rollouts::old_pods::tests::{answer, pod};

    /// A follower of `deployment/web`, and the time.
    struct Test {
        follower: RolloutFollower,
        now: Instant,
    }

    impl Test {
        fn new() -> Self {
            let now = Instant::now();
            let follower = RolloutFollower::new("deployment/web".parse().unwrap(), now);
            Self { follower, now }
        }

        /// A look after a second at these old pods, while one of two new pods is there, or all.
        fn look(
            &mut self,
            pods: &[(PodFacts, Answer)],
            is_complete: bool,
        ) -> (Vec<String>, Verdict) {
            self.now += Duration::from_secs(1);
            let time = Timestamp::from_second(1_000).unwrap();
            let (asked, answered) = (self.now, self.now);
            let old = OldPods { pods: pods.to_vec(), asked, answered, time };
            let updated = if is_complete { 2 } else { 1 };
            let facts =
                RolloutFacts { observed: true, wanted: 2, updated, ..RolloutFacts::default() };
            let (lines, verdict) = self.follower.note_look(&facts, &old);
            (lines.into_iter().map(|line| line.message).collect(), verdict)
        }
    }

    const OLD: &str = "deployment/web: all new pods are available; old pods still end";

    fn lines<const N: usize>(lines: [&str; N], verdict: Verdict) -> (Vec<String>, Verdict) {
        (lines.map(str::to_owned).to_vec(), verdict)
    }

    #[test]
    fn a_rollout_ends_with_the_last_stream_of_its_old_pods() {
        let mut test = Test::new();
        let draining = [(pod(true), answer("draining", 2, 3_000))];
        let held = "pod/a: draining for 3 s, holding 2 (not listed: none)";
        let waiting = "waiting for deployment/web: 1 of 2 new pods are there";
        assert_eq!(test.look(&draining, false), lines([held, waiting], Verdict::Wait));
        assert_eq!(test.look(&draining, true), lines([OLD], Verdict::Wait), "held as before");
        let drained = [(pod(true), answer("drained", 0, 0))];
        let end = "deployment/web successfully rolled out; the last stream of its old pods ended \
            after 3.0 s";
        let over = "pod/a: nothing holds it";
        assert_eq!(test.look(&drained, true), lines([over, end], Verdict::Done));
    }

    #[test]
    fn streams_that_a_pod_cuts_are_counted_at_the_end() {
        let mut test = Test::new();
        let (seen, _) = test.look(&[(pod(true), answer("expired", 2, 0))], true);
        let gave_up = "pod/a: the gate gave up with 2 streams in flight: holding 2 (not listed: \
            none)";
        assert_eq!(seen, [gave_up, OLD]);
        let end = "deployment/web successfully rolled out; the last stream of its old pods ended \
            after 1.0 s; their pods went with 2 streams in flight";
        let cut = "pod/a: went with 2 streams in flight";
        assert!(!test.follower.has_cut());
        assert_eq!(test.look(&[], true), lines([cut, end], Verdict::Done));
        assert!(test.follower.has_cut() && !test.follower.has_unknown());
    }

    /// With a proxy that does not answer, and without one by name.
    #[test]
    fn pods_with_unknown_streams_are_waited_for_until_they_are_overdue() {
        let silent = || Answer::Silent("refused".into());
        let nameless = PodFacts { proxy: None, ..pod(true) };
        for (old, answer, why) in [
            (pod(true), silent(), "refused"),
            (nameless, Answer::Unasked, "no container of it is a proxy by name"),
        ] {
            let mut test = Test::new();
            let unknown = format!("pod/a: its streams are not known ({why}); waiting for its end");
            let seen = test.look(&[(old.clone(), answer.clone())], true);
            assert_eq!(seen, lines([&unknown, OLD], Verdict::Wait));
            let overdue = PodFacts { grace_ends: Some(Timestamp::UNIX_EPOCH), ..old };
            let (seen, verdict) = test.look(&[(overdue, answer)], true);
            assert!(seen[0].ends_with("; its grace period is long over, so it is not waited for"));
            assert!(seen[1].ends_with("; the streams of 1 old pod are not known"), "{seen:?}");
            assert_eq!(verdict, Verdict::Done);
            assert!(test.follower.has_unknown() && !test.follower.has_cut());
        }
    }

    #[test]
    fn the_api_server_must_answer_once_and_may_then_restart() {
        let mut test = Test::new();
        let away = || FleetError::Unreachable { server: "https://a".into(), why: "r".into() };
        assert_eq!(test.follower.note_failure(away(), test.now), Err(away()), "before any answer");
        let first = test.follower.note_pods(&[pod(true)], test.now);
        assert_eq!(first.len(), 1, "{first:?}");
        assert_eq!(test.follower.note_pods(&[pod(true)], test.now), [], "not again");
        let second = Duration::from_secs(1);
        let told = test.follower.note_failure(away(), test.now + second).unwrap();
        assert_eq!((told.len(), told[0].state), (1, "waiting"));
        assert_eq!(test.follower.note_failure(away(), test.now + 2 * second), Ok(vec![]));
        assert_eq!(test.follower.note_failure(away(), test.now + 30 * second), Err(away()));
    }

    #[test]
    fn a_failed_rollout_ends_with_its_reason() {
        let mut test = Test::new();
        let old = OldPods {
            pods: vec![],
            asked: test.now,
            answered: test.now,
            time: Timestamp::UNIX_EPOCH,
        };
        let failed = Some("it is degraded".to_owned());
        let facts = RolloutFacts { observed: true, failed, ..RolloutFacts::default() };
        let why = "deployment/web: it is degraded".to_owned();
        assert_eq!(test.follower.note_look(&facts, &old), (vec![], Verdict::Failed(why)));
    }
}
