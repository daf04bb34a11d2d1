//! The progress of all jobs as text in shared data, which the VMs of all workers see. A text of
//! another version is ignored.

use super::job::{CommandJob, Job, JobKind};
use super::pacing::{Progress, Window};
use crate::census::{EndFilter, Kinds};
use crate::host::{Control, compare_and_set_shared};
use crate::parse;

const VERSION: &str = "3";

/// What the gates of all workers share.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub(crate) struct EndState {
    /// When the drain began that `drain` is about.
    pub(crate) drain_began: u64,
    pub(crate) drain: Progress,
    /// The moment of the change that `config` is about.
    pub(crate) config_moment: u64,
    pub(crate) config: Progress,
    /// The moment of the change for which an operator has stopped the ends.
    pub(crate) config_stopped: u64,
    /// When an operator last stopped a command, begun or not.
    pub(crate) stopped_at: u64,
    pub(crate) command: Option<CommandJob>,
}

/// What one worker orders.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Claim {
    pub(crate) count: u64,
    /// It is the first of its job.
    pub(crate) is_first: bool,
}

impl EndState {
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
        ];
        let mut text = String::from(VERSION);
        for number in numbers {
            text.push_str(&format!(" {number}"));
        }
        text
    }

    fn parse(text: &[u8]) -> Option<Self> {
        let mut words = core::str::from_utf8(text).ok()?.split(' ');
        if words.next() != Some(VERSION) {
            return None;
        }
        let [drain_began, last, ordered, config_moment, config_last, config_ordered, job @ ..]: [_;
            16] = parse::numbers(&mut words)?;
        let [config_stopped, stopped_at, kinds, changing, began_before, job @ ..] = job;
        let [from, to, total, command_last, command_ordered] = job;
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
        })
    }

    /// Takes what is due now of a job, of `endable` streams and of what may be ordered at once.
    /// Another worker may have ordered some, stopped the job or begun another one since this worker
    /// has read the state. `drain_began`: when the drain began that goes on.
    pub(crate) fn claim(
        &mut self,
        job: &Job,
        drain_began: u64,
        now: u64,
        endable: u64,
        most: u64,
    ) -> Claim {
        let (began, moment, progress) = match job.kind {
            JobKind::Command => {
                let is_same = |command: &&mut CommandJob| {
                    (command.which, command.window) == (job.which, job.window)
                };
                let Some(command) = self.command.as_mut().filter(is_same) else {
                    return Claim::default();
                };
                let left = command.total.saturating_sub(command.progress.ordered);
                let count = command.progress.claim(now, job.window, endable.min(left), most);
                return Claim { count, is_first: false };
            }
            JobKind::ConfigChange => (job.window.from, &mut self.config_moment, &mut self.config),
            JobKind::Drain | JobKind::Query => {
                (drain_began, &mut self.drain_began, &mut self.drain)
            }
        };
        let is_first = *moment != began;
        if is_first {
            (*moment, *progress) = (began, Progress::default());
        }
        Claim { count: progress.claim(now, job.window, endable, most), is_first }
    }

    pub(crate) fn read(host: &impl Control, key: &str) -> Self {
        host.get_shared_data(key).and_then(|(text, _)| Self::parse(&text)).unwrap_or_default()
    }

    /// Changes the state. If another worker has changed it meanwhile, `work` runs again on the new
    /// one.
    pub(crate) fn update(host: &impl Control, key: &str, work: &mut dyn FnMut(&mut Self)) {
        compare_and_set_shared(host, key, &mut |text| {
            let before = text.and_then(Self::parse).unwrap_or_default();
            let mut after = before.clone();
            work(&mut after);
            (after != before).then(|| after.to_text().into_bytes())
        });
    }
}

#[cfg(test)]
mod tests {
    use wasm_bindgen_test::wasm_bindgen_test;

    use super::{Claim, EndState};
    use crate::census::{EndFilter, EndManner, Kinds, StreamKind};
    use crate::gate::ends::job::{CommandJob, Job, JobKind};
    use crate::gate::ends::pacing::{Progress, Window};

    #[wasm_bindgen_test(unsupported = test)]
    fn a_state_survives_its_text() {
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
            };
            assert_eq!(EndState::parse(state.to_text().as_bytes()), Some(state));
        }
        for text in ["", "1", "3 0 0 0 0 0 0 0 0 0 0 0", "1 x", "\u{fe}"] {
            assert_eq!(EndState::parse(text.as_bytes()), None, "{text}");
        }
    }

    /// A command whose window is over, as a worker has read it: all that is left is due.
    fn command() -> (CommandJob, Job) {
        let window = Window { from: 1_000, to: 2_000 };
        let command = CommandJob { window, total: 10, ..CommandJob::default() };
        let (which, how) = (command.which, EndManner::default());
        (command, Job { kind: JobKind::Command, window, which, how, left: 10 })
    }

    #[wasm_bindgen_test(unsupported = test)]
    fn two_workers_order_no_more_than_the_total() {
        let (command, job) = command();
        let mut state = EndState { command: Some(command), ..EndState::default() };
        let claims = [7, 7, 7].map(|endable| state.claim(&job, 0, 2_000, endable, 99).count);
        assert_eq!(claims, [7, 3, 0]);
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
            assert_eq!(state.claim(&job, 0, 2_000, 7, 99), Claim::default());
            assert_eq!(state, before);
        }
    }

    #[wasm_bindgen_test(unsupported = test)]
    fn a_new_drain_begins_its_own_progress() {
        let (_, job) = command();
        let mut state = EndState::default();
        for (kind, began) in [(JobKind::Drain, 5), (JobKind::ConfigChange, 5), (JobKind::Drain, 6)]
        {
            let job = Job { kind, ..job };
            for is_first in [true, false] {
                let claim = state.claim(&job, began, 2_000, 3, 99);
                assert_eq!(claim, Claim { count: 3, is_first }, "{kind:?}");
            }
        }
        assert_eq!((state.drain.ordered, state.config.ordered), (6, 6));
    }
}
