//! The progress of the ends as text in shared data, which the VMs of all workers see.
//!
//! The gates of two versions run side by side while the module is replaced. So a later version only
//! adds numbers behind these, and each version keeps the numbers that it does not know.

use super::pacing::{Progress, Window};
use crate::census::{EndSurvey, MOST_ORDERED};
use crate::parse;
use crate::shared_text::{SharedText, after_version, numbers_to_text};

/// The version of the text, which all later versions of the module keep.
const VERSION: &str = "4";
/// The number of places that only earlier versions use. They are written as 0.
const UNUSED: usize = 13;

/// The state of the ends, which the gates of all workers share.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub(crate) struct EndState {
    /// The beginning of the drain whose progress this is.
    pub(crate) drain_began: u64,
    pub(crate) progress: Progress,
    /// The beginning of the newest drain that was cancelled, which ends no more streams.
    pub(crate) drain_stopped: u64,
    /// The numbers that a later version has added.
    pub(crate) later: String,
}

/// The streams that one worker is to order.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Claim {
    pub(crate) count: u64,
    /// Whether this is the first claim of its drain.
    pub(crate) is_first: bool,
}

impl SharedText for EndState {
    fn to_text(&self) -> String {
        let mut numbers = vec![self.drain_began, self.progress.last, self.progress.ordered];
        numbers.extend([0; UNUSED]);
        numbers.push(self.drain_stopped);
        numbers_to_text(VERSION, &numbers) + &self.later
    }

    fn parse(text: &str) -> Option<Self> {
        let mut words = after_version(text, VERSION)?.split(' ');
        let [drain_began, last, ordered] = parse::numbers(&mut words)?;
        let _: [u64; UNUSED] = parse::numbers(&mut words)?;
        let [drain_stopped] = parse::numbers(&mut words)?;
        let progress = Progress { last, ordered };
        let later = words.map(|word| format!(" {word}")).collect();
        Some(Self { drain_began, progress, drain_stopped, later })
    }
}

impl EndState {
    /// Takes the streams that are due now in the drain that began at `drain_began`. The survey shows
    /// how many are left. Since this worker has read the state, another worker may have ordered
    /// some streams, or the drain may have been cancelled.
    pub(crate) fn claim(
        &mut self,
        window: Window,
        survey: EndSurvey,
        drain_began: u64,
        now: u64,
    ) -> Claim {
        if drain_began <= self.drain_stopped || drain_began < self.drain_began {
            return Claim::default();
        }
        let is_first = drain_began > self.drain_began;
        if is_first {
            (self.drain_began, self.progress.ordered) = (drain_began, 0);
        }
        // A counter that has not replied may have streams. Until it replies, a claim of none leaves
        // the pace as it is.
        let is_known = survey.endable > 0 || survey.replied == survey.asked;
        let most = MOST_ORDERED.saturating_mul(survey.replied);
        let count = match is_known {
            true => self.progress.claim(now, window, survey.endable, most),
            false => 0,
        };
        Claim { count, is_first }
    }

    /// Gives back the part of a claim that was not sent to any counter.
    pub(crate) fn return_unsent(&mut self, unsent: u64) {
        self.progress.ordered = self.progress.ordered.saturating_sub(unsent);
    }
}

#[cfg(test)]
mod tests {
    use wasm_bindgen_test::wasm_bindgen_test;

    use super::{Claim, EndState};
    use crate::census::EndSurvey;
    use crate::fake::Fake;
    use crate::gate::ends::pacing::{Progress, Window};
    use crate::host::Control as _;
    use crate::shared_text::{self, SharedText as _};

    #[wasm_bindgen_test(unsupported = test)]
    fn a_state_is_the_same_after_a_round_trip_through_its_text() {
        let progress = Progress { last: 2, ordered: 3 };
        let later = String::new();
        let state = EndState { drain_began: 1, progress, drain_stopped: 4, later };
        assert_eq!(state.to_text(), "4 1 2 3 0 0 0 0 0 0 0 0 0 0 0 0 0 4");
        assert_eq!(EndState::parse(&state.to_text()), Some(state));
        for text in ["", "1", "4 0 0 0 0 0 0 0 0 0 0 0", "1 x", "\u{fe}", "40 0"] {
            assert_eq!(EndState::parse(text), None, "{text}");
        }
    }

    #[wasm_bindgen_test(unsupported = test)]
    fn numbers_of_other_versions_do_not_matter_and_later_ones_are_kept() {
        let text = "4 1 2 3 4 5 6 7 8 9 0 11 12 13 14 15 16 17 18 a,b";
        let host = Fake::default();
        assert!(host.set_shared_data("key", text.as_bytes(), None));
        shared_text::update(&host, "key", &mut |state: &mut EndState| state.return_unsent(1));
        assert_eq!(shared_text::read::<EndState>(&host, "key").drain_stopped, 17);
        let (text, _) = host.get_shared_data("key").expect("a text");
        let expected = "4 1 2 2 0 0 0 0 0 0 0 0 0 0 0 0 0 17 18 a,b";
        assert_eq!(String::from_utf8_lossy(&text), expected);
    }

    const WINDOW: Window = Window { from: 1_000, to: 2_000 };

    fn survey(endable: u64) -> EndSurvey {
        EndSurvey { endable, asked: 1, replied: 1, ..EndSurvey::default() }
    }

    #[wasm_bindgen_test(unsupported = test)]
    fn a_worker_without_replies_leaves_the_pace_as_it_is() {
        let progress = Progress { last: 1_000, ordered: 0 };
        for silent in [EndSurvey { replied: 0, ..survey(0) }, EndSurvey { asked: 2, ..survey(0) }] {
            let mut state = EndState { drain_began: 500, progress, ..EndState::default() };
            assert_eq!(state.claim(WINDOW, silent, 500, 1_500), Claim::default());
            assert_eq!(state.claim(WINDOW, survey(2), 500, 1_500).count, 1, "half of two");
        }
    }

    /// The worker that claims has read the record before the drain was cancelled.
    #[wasm_bindgen_test(unsupported = test)]
    fn nothing_is_ordered_for_a_drain_that_was_cancelled() {
        let mut state = EndState { drain_stopped: 500, ..EndState::default() };
        assert_eq!(state.claim(WINDOW, survey(7), 500, 2_000), Claim::default());
        assert_eq!(state.claim(WINDOW, survey(7), 600, 2_000).count, 7, "the next one");
        assert_eq!(state.claim(WINDOW, survey(7), 550, 2_000), Claim::default(), "one before that");
    }

    #[wasm_bindgen_test(unsupported = test)]
    fn a_new_drain_begins_its_own_progress() {
        let mut state = EndState::default();
        for began in [5, 6] {
            for is_first in [true, false] {
                let claim = state.claim(WINDOW, survey(3), began, 2_000);
                assert_eq!(claim, Claim { count: 3, is_first }, "{began}");
            }
        }
        assert_eq!(state.progress.ordered, 6);
    }
}
