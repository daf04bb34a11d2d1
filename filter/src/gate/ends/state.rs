//! The progress of all jobs as text in shared data, which the VMs of all workers see.
//!
//! The gates of two versions run side by side while the module is replaced. So a later version only
//! adds numbers behind these, and each version keeps the numbers that it does not know.

use super::job::{CommandJob, Job, JobKind};
use super::pacing::{Progress, Window};
use crate::census::{EndFilter, EndSurvey, Kinds, MOST_ORDERED};
use crate::parse;
use crate::shared_text::{SharedText, after_version, numbers_to_text};

/// The version of the text, which all later versions of the module keep.
const VERSION: &str = "4";

/// The state of all jobs, which the gates of all workers share.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub(crate) struct EndState {
    /// The beginning of the drain whose progress is in `drain`.
    pub(crate) drain_began: u64,
    pub(crate) drain: Progress,
    /// The newest change for which streams were ended, by its moment. All changes share one
    /// progress, which counts streams from this change on.
    pub(crate) config_moment: u64,
    pub(crate) config: Progress,
    /// The newest change whose ends an operator has stopped, together with those of all changes
    /// before it.
    pub(crate) config_stopped: u64,
    /// The time of the last `DELETE /end`, whether or not a command had begun.
    pub(crate) stopped_at: u64,
    pub(crate) command: Option<CommandJob>,
    /// The beginning of the newest drain that was cancelled, which ends no more streams.
    pub(crate) drain_stopped: u64,
    /// The numbers that a later version has added.
    pub(crate) later: String,
}

/// The streams that one worker is to order.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Claim {
    pub(crate) count: u64,
    /// The place of the job in the list.
    pub(crate) index: usize,
    /// Whether this is the first claim of its drain or change.
    pub(crate) is_first: bool,
}

impl SharedText for EndState {
    fn to_text(&self) -> String {
        let CommandJob { which, window, total, progress } = self.command.unwrap_or_default();
        let EndFilter { kinds, changing, began_before, .. } = which;
        let numbers = [
            self.drain_began,
            self.drain.last,
            self.drain.ordered,
            self.config_moment,
            self.config.last,
            self.config.ordered,
            self.config_stopped,
            self.stopped_at,
            kinds.to_number(),
            changing.into(),
            began_before,
            window.from,
            window.to,
            total,
            progress.last,
            progress.ordered,
            self.drain_stopped,
        ];
        numbers_to_text(VERSION, &numbers) + &self.later
    }

    fn parse(text: &str) -> Option<Self> {
        let mut words = after_version(text, VERSION)?.split(' ');
        let [drain_began, last, ordered, config_moment, config_last, config_ordered, job @ ..]: [_;
            17] = parse::numbers(&mut words)?;
        let [config_stopped, stopped_at, kinds, changing, began_before, job @ ..] = job;
        let [from, to, total, command_last, command_ordered, drain_stopped] = job;
        let kinds = Kinds::from_number(kinds);
        let command = CommandJob {
            which: EndFilter { kinds, changing: changing == 1, began_before, plain_only: false },
            window: Window { from, to },
            total,
            progress: Progress { last: command_last, ordered: command_ordered },
        };
        Some(Self {
            drain_began,
            drain: Progress { last, ordered },
            config_moment,
            config: Progress { last: config_last, ordered: config_ordered },
            config_stopped,
            stopped_at,
            command: (total > 0).then_some(command),
            drain_stopped,
            later: words.map(|word| format!(" {word}")).collect(),
        })
    }
}

impl EndState {
    /// Takes the streams that are due now for jobs of one kind, whose surveys show how many are
    /// left. Of several changes, the one whose streams have to end fastest sets the pace: its
    /// streams are also among those of later changes. Since this worker has read the state, another
    /// worker may have ordered some streams, stopped the job or begun another one. `drain_began`:
    /// the beginning of the current drain.
    pub(crate) fn claim(&mut self, jobs: &[(Job, EndSurvey)], drain_began: u64, now: u64) -> Claim {
        let goes_on = |job: &Job| match job.kind {
            JobKind::Command => self.command.is_some_and(|command| command.is_of(job)),
            JobKind::ConfigChange => job.window.from > self.config_stopped,
            JobKind::Drain | JobKind::Query => {
                drain_began > self.drain_stopped && drain_began >= self.drain_began
            }
        };
        let going_on = jobs.iter().enumerate().filter(|(_, (job, _))| goes_on(job));
        let pace = |(job, survey): &(Job, EndSurvey)| job.window.pace(now, survey.endable);
        let Some((index, (job, survey))) = going_on.max_by_key(|(_, job)| pace(job)) else {
            return Claim::default();
        };
        let newest = jobs.last().map_or(0, |(job, _)| job.window.from);
        let most = MOST_ORDERED.saturating_mul(survey.replied);
        // A counter that has not replied may have streams. Until it replies, a claim of none leaves
        // the pace as it is.
        let is_known = survey.endable > 0 || survey.replied == survey.asked;
        let claim = |progress: &mut Progress, left| match is_known {
            true => progress.claim(now, job.window, left, most),
            false => 0,
        };
        let (began, known, progress) = match (job.kind, &mut self.command) {
            (JobKind::Command, Some(command)) => {
                let left = command.total.saturating_sub(command.progress.ordered);
                let left = survey.endable.min(left);
                let count = claim(&mut command.progress, left);
                return Claim { count, index, is_first: false };
            }
            (JobKind::ConfigChange, _) => (newest, &mut self.config_moment, &mut self.config),
            _ => (drain_began, &mut self.drain_began, &mut self.drain),
        };
        let is_first = began > *known;
        if is_first {
            (*known, progress.ordered) = (began, 0);
        }
        let count = claim(progress, survey.endable);
        Claim { count, index, is_first }
    }

    /// Gives back the part of a claim that was not sent to any counter.
    pub(crate) fn return_unsent(&mut self, job: &Job, unsent: u64) {
        let progress = match (job.kind, &mut self.command) {
            (JobKind::Command, Some(command)) if command.is_of(job) => &mut command.progress,
            (JobKind::Command, _) => return,
            (JobKind::ConfigChange, _) => &mut self.config,
            _ => &mut self.drain,
        };
        progress.ordered = progress.ordered.saturating_sub(unsent);
    }
}

#[cfg(test)]
mod tests {
    use wasm_bindgen_test::wasm_bindgen_test;

    use super::{Claim, EndState};
    use crate::census::{EndFilter, EndManner, EndSurvey, Kinds, StreamKind};
    use crate::fake::Fake;
    use crate::gate::ends::job::{CommandJob, Job, JobKind};
    use crate::gate::ends::pacing::{Progress, Window};
    use crate::host::Control as _;
    use crate::shared_text::{self, SharedText as _};

    #[wasm_bindgen_test(unsupported = test)]
    fn a_state_is_the_same_after_a_round_trip_through_its_text() {
        let kinds = Kinds::of(&[StreamKind::Websocket]);
        let command = CommandJob {
            which: EndFilter { kinds, changing: true, began_before: 4, plain_only: false },
            window: Window { from: 5, to: 6 },
            total: 7,
            progress: Progress { last: 8, ordered: 9 },
        };
        let drain = Progress { last: 2, ordered: 3 };
        let config = Progress { last: 11, ordered: 12 };
        for command in [None, Some(command)] {
            let state = EndState {
                drain_began: 1,
                drain,
                config_moment: 10,
                config,
                config_stopped: 13,
                stopped_at: 14,
                command,
                drain_stopped: 15,
                later: String::new(),
            };
            assert_eq!(EndState::parse(&state.to_text()), Some(state));
        }
        for text in ["", "1", "4 0 0 0 0 0 0 0 0 0 0 0", "1 x", "\u{fe}", "40 0"] {
            assert_eq!(EndState::parse(text), None, "{text}");
        }
    }

    #[wasm_bindgen_test(unsupported = test)]
    fn numbers_of_a_later_version_are_kept() {
        let text = "4 1 2 3 4 5 6 7 8 9 0 11 12 13 14 15 16 17 18 a,b";
        let host = Fake::default();
        assert!(host.set_shared_data("key", text.as_bytes(), None));
        shared_text::update(&host, "key", &mut |state: &mut EndState| state.stopped_at = 99);
        assert_eq!(shared_text::read::<EndState>(&host, "key").drain_stopped, 17);
        let (text, _) = host.get_shared_data("key").expect("a text");
        let expected = "4 1 2 3 4 5 6 7 99 9 0 11 12 13 14 15 16 17 18 a,b";
        assert_eq!(String::from_utf8_lossy(&text), expected);
    }

    /// A command whose window is over, as a worker has read it: all that is left is due.
    fn command() -> (CommandJob, Job) {
        let window = Window { from: 1_000, to: 2_000 };
        let command = CommandJob { window, total: 10, ..CommandJob::default() };
        let (which, how) = (command.which, EndManner::default());
        (command, Job { kind: JobKind::Command, window, which, how, left: 10 })
    }

    fn survey(endable: u64) -> EndSurvey {
        EndSurvey { endable, asked: 1, replied: 1, ..EndSurvey::default() }
    }

    #[wasm_bindgen_test(unsupported = test)]
    fn two_workers_order_no_more_than_the_total() {
        let (command, job) = command();
        let mut state = EndState { command: Some(command), ..EndState::default() };
        let claims =
            [7, 7, 7].map(|endable| state.claim(&[(job, survey(endable))], 0, 2_000).count);
        assert_eq!(claims, [7, 3, 0]);
    }

    #[wasm_bindgen_test(unsupported = test)]
    fn a_worker_without_replies_leaves_the_pace_as_it_is() {
        let (command, job) = command();
        let progress = Progress { last: 1_000, ordered: 0 };
        let command = Some(CommandJob { progress, ..command });
        for silent in [EndSurvey { replied: 0, ..survey(0) }, EndSurvey { asked: 2, ..survey(0) }] {
            let mut state = EndState { command, ..EndState::default() };
            assert_eq!(state.claim(&[(job, silent)], 0, 1_500), Claim::default());
            assert_eq!(state.claim(&[(job, survey(2))], 0, 1_500).count, 1, "half of two");
        }
    }

    #[wasm_bindgen_test(unsupported = test)]
    fn nothing_is_ordered_for_a_command_that_was_stopped_or_replaced() {
        let (command, job) = command();
        let which = EndFilter { kinds: Kinds::of(&[StreamKind::Grpc]), ..command.which };
        let window = Window { from: 1_500, ..command.window };
        for now_there in
            [None, Some(CommandJob { which, ..command }), Some(CommandJob { window, ..command })]
        {
            let mut state = EndState { command: now_there, ..EndState::default() };
            let before = state.clone();
            assert_eq!(state.claim(&[(job, survey(7))], 0, 2_000), Claim::default());
            assert_eq!(state, before);
        }
    }

    /// The worker that claims has read the jobs before they were stopped.
    #[wasm_bindgen_test(unsupported = test)]
    fn nothing_is_ordered_for_a_drain_or_changes_that_were_stopped() {
        let (_, job) = command();
        let change = |from| {
            let window = Window { from, ..job.window };
            (Job { kind: JobKind::ConfigChange, window, ..job }, survey(7))
        };
        let mut state = EndState { config_stopped: 1_000, ..EndState::default() };
        let claim = state.claim(&[change(900), change(1_000)], 0, 2_000);
        assert_eq!(claim, Claim::default());
        let claim = state.claim(&[change(1_000), change(1_001)], 0, 2_000);
        assert_eq!((claim.count, claim.index), (7, 1), "it came later");
        let drain = [(Job { kind: JobKind::Drain, ..job }, survey(7))];
        let mut state = EndState { drain_stopped: 500, ..EndState::default() };
        assert_eq!(state.claim(&drain, 500, 2_000), Claim::default());
        assert_eq!(state.claim(&drain, 600, 2_000).count, 7, "the next one");
        assert_eq!(state.claim(&drain, 550, 2_000), Claim::default(), "one before that");
    }

    #[wasm_bindgen_test(unsupported = test)]
    fn a_new_drain_begins_its_own_progress() {
        let (_, job) = command();
        let mut state = EndState::default();
        for (kind, began) in [(JobKind::Drain, 5), (JobKind::ConfigChange, 5), (JobKind::Drain, 6)]
        {
            let job = Job { kind, ..job };
            for is_first in [true, false] {
                let claim = state.claim(&[(job, survey(3))], began, 2_000);
                assert_eq!(claim, Claim { count: 3, index: 0, is_first }, "{kind:?}");
            }
        }
        assert_eq!((state.drain.ordered, state.config.ordered), (6, 6));
    }

    /// Claims ten times a second after two changes 14 s apart. The clients of ended streams return
    /// at once, on the new configuration.
    #[wasm_bindgen_test(unsupported = test)]
    fn the_ends_after_two_changes_are_spread_and_in_time() {
        const BEFORE: u64 = 3_000;
        let (_, job) = command();
        let change = |from| {
            let window = Window { from, to: from + 30_000 };
            Job { kind: JobKind::ConfigChange, window, ..job }
        };
        let [first, second] = [change(10_000), change(24_000)];
        let (mut state, mut older, mut between) = (EndState::default(), BEFORE, 0);
        let mut last_second = [0; 10];
        for (now, round) in (10_000..60_000).step_by(100).zip(0..) {
            let both = [(first, survey(older)), (second, survey(older + between))];
            let live: &[_] = if now < 24_000 {
                &both[..1]
            } else if now < 55_000 {
                &both
            } else {
                &both[1..]
            };
            let claim = state.claim(live, 0, now);
            let of_older = match live[claim.index].0 == first {
                true => claim.count,
                // Each counter ends its own oldest streams first, which are not the oldest of all.
                false => claim.count * older / (older + between).max(1),
            };
            older -= of_older;
            between -= claim.count - of_older;
            between += if now < 24_000 { claim.count } else { 0 };
            last_second[round % 10] = claim.count;
            let share = BEFORE / 30;
            assert!(
                last_second.iter().sum::<u64>() <= share * 11 / 10,
                "at {now}: {last_second:?}"
            );
            assert!(older == 0 || now < 40_000, "{older} at {now}, when Envoy may close them");
        }
        assert_eq!((older, between), (0, 0));
    }
}
