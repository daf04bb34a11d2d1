//! The latch of a gate that counts by Envoy, without a filter in the path: a route at the head of
//! each virtual host, which answers 503 while Envoy's runtime says so. Pure.
//!
//! The runtime has no lease. So what it was last told is part of the shared value, and the gates
//! tell it to let requests pass as soon as nobody holds the latch.

use super::moments::{Millis, Moment};
use super::step::CallEnd;
use super::timing::{LONGEST_PAUSE, QUERY_SLACK};

/// What Envoy's runtime was told.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct Routes {
    /// Whether it has answered that requests pass, and was not told otherwise since. Not so at the
    /// start: an earlier gate may have left it closed.
    pub let_pass: bool,
    /// When it was last told that.
    pub told_at: Option<Moment>,
    /// Whether it has refused to be told.
    pub has_failed: bool,
    /// Whether no call that refuses requests can be on its way any more. Not so at the start, and
    /// while the answer to such a call is missing: it may come after one that lets them pass.
    pub is_sure: bool,
}

impl Routes {
    /// Whether it is to be told that requests pass, if nobody holds the latch.
    pub(crate) fn is_due(&self, now: Moment, patience: Millis) -> bool {
        let pause = if self.has_failed { LONGEST_PAUSE } else { patience + QUERY_SLACK };
        !self.let_pass && self.told_at.is_none_or(|told| now - told >= pause)
    }

    /// Whether requests may be refused, though nobody wants that.
    pub(crate) fn may_refuse(&self) -> bool {
        !self.let_pass && !self.has_failed
    }

    /// Records that it is told.
    pub(crate) fn tell(&mut self, now: Moment) {
        self.told_at = Some(now);
    }

    /// Records the end of that call. An answer that is missing, as from an Envoy that is still
    /// starting, is no refusal. That to an earlier call changes nothing: only the last one shows
    /// that none of them is still on its way. After a call whose answer is missing it is told
    /// twice: Envoy has handled that one when it handles the second.
    pub(crate) fn have_answered(&mut self, told: Moment, end: CallEnd) {
        if self.told_at != Some(told) {
            return;
        }
        let is_success = end.is_success();
        if matches!(end, CallEnd::Answered(_)) {
            self.has_failed = !is_success;
        }
        self.let_pass = is_success && self.is_sure;
        self.is_sure |= is_success;
        if is_success && !self.let_pass {
            self.told_at = None;
        }
    }

    /// Records that Envoy has answered to the call that refuses requests, and returns whether they
    /// are refused: no gate has told Envoy otherwise since, before it saw the latch.
    pub(crate) fn refusal_has_arrived(&mut self) -> bool {
        let is_last = !self.let_pass && self.told_at.is_none();
        self.is_sure |= is_last;
        is_last
    }

    /// Records that requests are refused from now on. False: an earlier call that lets them pass
    /// may still be on its way, and would undo this one.
    pub(crate) fn refuse(&mut self) -> bool {
        let may = core::mem::replace(&mut self.let_pass, false);
        self.told_at = self.told_at.filter(|_| !may);
        self.is_sure &= !may;
        may
    }
}

#[cfg(test)]
mod tests {
    use wasm_bindgen_test::wasm_bindgen_test;

    use super::{CallEnd, Millis, Moment, Routes};

    const PATIENCE: Millis = Millis(1_000);
    const DONE: CallEnd = CallEnd::Answered(200);

    #[wasm_bindgen_test(unsupported = test)]
    fn requests_are_refused_only_once_no_call_is_left_that_lets_them_pass() {
        let mut routes = Routes { is_sure: true, ..Routes::default() };
        assert!(!routes.refuse() && routes.is_due(Moment(1), PATIENCE), "what is left of before");
        routes.tell(Moment(1));
        assert!(!routes.is_due(Moment(2_000), PATIENCE) && !routes.refuse());
        routes.tell(Moment(2_001));
        routes.have_answered(Moment(1), DONE);
        assert!(!routes.let_pass, "the second call is on its way");
        routes.have_answered(Moment(2_001), DONE);
        assert!(routes.let_pass && !routes.is_due(Moment(9_000), PATIENCE));
        assert!(routes.refuse() && !routes.let_pass);
        routes.have_answered(Moment(2_001), DONE);
        assert!(!routes.let_pass, "they were refused since");
        assert!(routes.is_due(Moment(2_002), PATIENCE), "at once, if nobody holds the latch");
    }

    #[wasm_bindgen_test(unsupported = test)]
    fn a_call_that_has_failed_is_made_again() {
        let mut routes = Routes { is_sure: true, ..Routes::default() };
        routes.tell(Moment(1));
        routes.have_answered(Moment(1), CallEnd::Answered(503));
        assert!(routes.has_failed && !routes.is_due(Moment(10_000), PATIENCE));
        assert!(routes.is_due(Moment(10_001), PATIENCE));
        routes.tell(Moment(10_001));
        routes.have_answered(Moment(10_001), CallEnd::TimedOut);
        assert!(routes.has_failed, "a missing answer says nothing new");
        routes.tell(Moment(20_001));
        routes.have_answered(Moment(20_001), DONE);
        assert!(routes.let_pass && !routes.has_failed);
    }

    #[wasm_bindgen_test(unsupported = test)]
    fn an_envoy_that_is_still_starting_is_soon_told_again() {
        let mut routes = Routes { is_sure: true, ..Routes::default() };
        routes.tell(Moment(1));
        routes.have_answered(Moment(1), CallEnd::NotSent);
        assert!(!routes.has_failed && routes.is_due(Moment(3_000), PATIENCE));
    }

    #[wasm_bindgen_test(unsupported = test)]
    fn after_a_lost_answer_it_is_told_twice() {
        let mut routes = Routes::default();
        for (now, passes) in [(1, false), (2, true)] {
            assert!(routes.is_due(Moment(now), PATIENCE), "at once");
            routes.tell(Moment(now));
            routes.have_answered(Moment(now), DONE);
            assert_eq!(routes.let_pass, passes, "at {now}: the start is unknown");
        }
        assert!(routes.refuse());
        assert!(routes.refusal_has_arrived());
        routes.tell(Moment(3));
        routes.have_answered(Moment(3), DONE);
        assert!(routes.let_pass && routes.refuse());
        for (now, passes) in [(4, false), (5, true)] {
            routes.tell(Moment(now));
            routes.have_answered(Moment(now), DONE);
            assert_eq!(routes.let_pass, passes, "at {now}: the refusal was not answered");
        }
        assert!(routes.refuse());
        routes.tell(Moment(6));
        assert!(!routes.refusal_has_arrived(), "another gate has told Envoy to let them pass");
        routes.have_answered(Moment(6), DONE);
        assert!(!routes.let_pass, "either call may have been the last");
    }
}
