//! The drain as a state machine. Pure: an observation goes in, a reason and an action come out. All
//! workers update one shared record, one after the other.
//!
//! `drained` is an observation, not a promise: it holds for the moment of the evaluation. If Envoy
//! outlives an open gate, the gate serves again: after a drain that reached zero at its deadline or
//! a little later, else [`DrainPolicy::open_for`] after it opened. A drain that reached zero before
//! a hook asked, and could not prove it to that hook, expires at its deadline.

use super::count_state::CountState;
use super::moments::{Millis, Moment};
use super::observation::{App, EnvoyCount, Observation, Reason};
use super::phase::Phase;
use super::policy::{DrainPolicy, Finish};
use super::step::{CallEnd, Step};
use super::timing::{AFTER_DEADLINE, LOG_INTERVAL};

/// The state of a drain, which all workers share.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct Record {
    /// The phase of the drain.
    pub phase: Phase,
    /// The beginning of the drain.
    pub began: Moment,
    /// The time at which the gate opens, whatever is in flight.
    pub deadline: Moment,
    /// The time at which the gate opened.
    pub ended: Option<Moment>,
    /// The counter of begun streams when the drain began.
    pub begun_before: u64,
    /// That counter at the last evaluation.
    pub begun_last: u64,
    /// The beginning of the quiet period: since then nothing has been in flight and nothing has
    /// begun, no bytes wait to be written, and the app is gone if it matters. None if that is not
    /// so now.
    pub quiet_since: Option<Moment>,
    /// The arrival of the last hook, if zero has not been proven since. The gate of a `drained`
    /// record may be closed to it: a counter can die in between.
    pub unproven_since: Option<Moment>,
    /// The call that tells clients to leave. Its state is kept after the drain, until the call is
    /// undone.
    pub begin: Step,
    /// The call after the last stream.
    pub finish: Step,
    /// The time of the last log line that shows why the gate waits.
    pub logged_at: Option<Moment>,
    /// The operator's reason for forcing the gate open.
    pub force_reason: String,
}

/// The next action of a worker. The begin call is sent in the same step. The last call has one
/// owner, too: the gate that holds the latch. A leak is healed by the gate that counts the heal.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Action {
    /// Tell clients to leave.
    Begin,
    /// Make the last call.
    Finish,
    /// Subtract leaked streams from the gauges.
    Heal,
}

impl Record {
    /// Claims the next log line that shows why the gate waits. Only one worker writes it.
    pub(crate) fn claim_log(&mut self, now: Moment) -> bool {
        let is_due = self.phase == Phase::Draining
            && self.logged_at.is_none_or(|logged_at| now - logged_at >= LOG_INTERVAL);
        if is_due {
            self.logged_at = Some(now);
        }
        is_due
    }

    /// Begins a drain, and returns whether it did. In a drain that goes on, only an earlier
    /// deadline changes anything.
    pub fn drain(
        &mut self,
        policy: &DrainPolicy,
        now: Moment,
        begun: u64,
        longest: Millis,
    ) -> bool {
        self.reset_when_over(policy, now, Millis(0));
        let begins = self.phase == Phase::Serving;
        if self.phase.is_draining() {
            self.limit_deadline(longest, now);
        }
        if begins {
            *self = Self {
                phase: Phase::Draining,
                began: now,
                deadline: now + longest,
                begun_before: begun,
                begun_last: begun,
                begin: self.begin_again(policy, now),
                ..Self::default()
            };
        }
        begins
    }

    /// The begin call of a new drain. If an earlier call was not undone, the step is not `Due`, so
    /// that a cancelled drain undoes the call.
    fn begin_again(&self, policy: &DrainPolicy, now: Moment) -> Step {
        match self.begin {
            _ if !policy.begins() => Step::Done,
            Step::Due => Step::Due,
            _ => Step::again(now),
        }
    }

    /// Makes the deadline earlier, but not earlier than now; a later one changes nothing.
    fn limit_deadline(&mut self, longest: Millis, now: Moment) {
        self.deadline = self.deadline.min((self.began + longest).max(now));
    }

    /// Zero is proven to each hook that had asked until then.
    pub(crate) fn prove(&mut self, asked_at: Moment) {
        self.unproven_since.take_if(|since| *since <= asked_at);
    }

    /// Records the end of a begin call. One that was undone meanwhile, or is of an earlier
    /// drain, may have reached Envoy late: a drain that has not made its own call yet then knows
    /// of it. True: it was undone, and is to be undone again.
    pub(crate) fn begin_has_ended(&mut self, end: CallEnd, now: Moment) -> bool {
        let is_serving = self.phase == Phase::Serving;
        match self.begin {
            Step::Due if is_serving => return true,
            Step::Due => self.begin = Step::again(now),
            _ => self.begin.record(end, now, Millis(0)),
        }
        false
    }

    /// Records the end of a call that undoes the begin call. A failed one may have arrived, too: a
    /// drain that has begun since makes its begin call again. Without a drain the record keeps that
    /// the begin call was made, so that `DELETE /drain` undoes it.
    pub(crate) fn undo_has_ended(&mut self, policy: &DrainPolicy, end: CallEnd, now: Moment) {
        self.begin = match self.phase {
            Phase::Serving if end.is_success() => Step::Due,
            Phase::Serving => Step::Done,
            _ => self.begin_again(policy, now),
        };
    }

    /// Opens the gate, whatever is in flight.
    pub fn force(&mut self, policy: &DrainPolicy, now: Moment, begun: u64, why: &str) {
        self.reset_when_over(policy, now, Millis(0));
        if self.phase != Phase::Forced {
            if self.phase == Phase::Serving {
                (self.began, self.begun_before) = (now, begun);
            }
            self.phase = Phase::Forced;
            self.ended = Some(now);
            self.force_reason = why.into();
        }
    }

    /// Serves again when a drain is over but Envoy still runs. A drain that reached zero ends with
    /// its deadline, because a later hook gets a separate deadline; without a later hook, it
    /// stays `drained` for at least `stays_drained`, and for up to [`DrainPolicy::open_for`] longer
    /// until the last call has been made. A drain that no worker has evaluated since its deadline
    /// must not open for a later hook either.
    fn reset_when_over(&mut self, policy: &DrainPolicy, now: Moment, stays_drained: Millis) {
        if self.phase.is_draining() {
            self.limit_deadline(policy.deadline, now); // of a new configuration
        }
        let opened_at = self.ended.unwrap_or(self.deadline);
        let is_over = match self.phase {
            Phase::Drained if self.unproven_since.is_none() => {
                let end = self.deadline.max(opened_at + stays_drained);
                let awaits = self.awaits_finish_call(policy);
                now >= if awaits { end + policy.open_for } else { end }
            }
            Phase::Expired | Phase::Forced => now >= opened_at + policy.open_for,
            Phase::Draining | Phase::Drained => now >= self.deadline + policy.open_for,
            Phase::Serving => false,
        };
        if is_over {
            self.serve_again(policy);
        }
    }

    /// Ends the drain. The state of the begin call is kept, because the end of the drain does not
    /// undo the call.
    pub(crate) fn serve_again(&mut self, policy: &DrainPolicy) {
        let begin = if policy.begins() { self.begin } else { Step::Due };
        *self = Self { begin, ..Self::default() };
    }

    /// Applies one observation. Returns why the gate is closed or open, and the next action.
    pub fn evaluate(
        &mut self,
        policy: &DrainPolicy,
        now: Moment,
        observed: &Observation,
    ) -> (Reason, Option<Action>) {
        self.reset_when_over(policy, now, AFTER_DEADLINE);
        let heal = is_healable(observed).then_some(Action::Heal);
        match self.phase {
            Phase::Serving => return (Reason::NotDraining, heal),
            Phase::Expired | Phase::Forced => return (Reason::Open(self.phase), heal),
            Phase::Draining | Phase::Drained => {}
        }
        let is_proven = self.phase == Phase::Drained && self.unproven_since.is_none();
        if now >= self.deadline && !is_proven {
            (self.phase, self.ended) = (Phase::Expired, Some(now));
            return (Reason::Open(self.phase), heal);
        }
        let begin = self.begin_once(policy, now);
        let reason = self.reason_at(policy, now, observed);
        self.update_phase(&reason, now);
        if now >= self.deadline && self.phase == Phase::Draining {
            self.serve_again(policy);
            return (Reason::NotDraining, heal);
        }
        if reason != Reason::Open(Phase::Drained) {
            return (reason, begin.or(heal));
        }
        // The process ends with the streams of all scopes.
        let waits = observed.may_revive || observed.others_in_flight > 0;
        let is_due = policy.finishes() && !waits && self.finish.is_due(policy.patience, now);
        let finish = is_due.then_some(Action::Finish);
        // At the deadline the gate opens without the agent's answer, as it does when the drain
        // expires.
        let is_agent_told =
            policy.finish != Finish::DrainAgent || self.finish.has_ended() || now >= self.deadline;
        (if is_agent_told { reason } else { Reason::Finishing }, finish.or(heal))
    }

    /// Zero makes the drain `drained`, and a stream makes it `draining` again. A count that is not
    /// known yet changes nothing.
    fn update_phase(&mut self, reason: &Reason, now: Moment) {
        match (self.phase, reason) {
            (Phase::Draining, Reason::Open(_)) => {
                (self.phase, self.ended) = (Phase::Drained, Some(now))
            }
            (Phase::Drained, Reason::Open(_) | Reason::Asking) => {}
            (Phase::Drained, _) => (self.phase, self.ended) = (Phase::Draining, None),
            _ => {}
        }
    }

    /// The reason why the drain is not over, or [`Reason::Open`] if it is. Zero is known only up to
    /// the time at which all sources have answered, because a worker may have died since. So both
    /// counts must have been asked for after the quiet period.
    fn reason_at(&mut self, policy: &DrainPolicy, now: Moment, observed: &Observation) -> Reason {
        let bytes = observed.unwritten_bytes().map(Reason::Bytes);
        let is_app_unknown = policy.waits_for_app && observed.app == App::Awaited;
        let app = (policy.waits_for_app && !matches!(observed.app, App::Gone | App::Awaited))
            .then_some(Reason::App(observed.app));
        // A stream that begins while the counts are read is also a new one next time.
        let last = core::mem::replace(&mut self.begun_last, observed.begun.before);
        if let Some(reason) = observed.in_flight_reason().or(bytes).or(app) {
            self.quiet_since = None;
            return reason;
        }
        self.update_quiet_period(observed, last != observed.begun.after);
        let Some(since) = self.quiet_since else { return Reason::Asking };
        if self.phase == Phase::Draining && policy.begins() && !self.begin.has_ended() {
            return Reason::Beginning;
        }
        // A drained gate has waited for clients already, even if the bytes are not known now.
        let lingers = observed.lingers && self.phase == Phase::Draining;
        let end = since + if lingers { policy.quiet.max(policy.linger) } else { policy.quiet };
        if is_app_unknown && (self.phase == Phase::Draining || now < end) {
            Reason::App(App::Awaited)
        } else if now < end {
            Reason::Quiet { since }
        } else if !is_app_unknown && observed.is_complete() && observed.known_until >= end {
            Reason::Open(Phase::Drained)
        } else {
            Reason::Asking
        }
    }

    /// Begins the quiet period, or begins it anew if a stream has begun. It does not begin while
    /// neither count is known, because a stream may be in flight.
    fn update_quiet_period(&mut self, observed: &Observation, has_begun: bool) {
        if self.quiet_since.is_none() || has_begun {
            self.quiet_since = (!observed.is_unknown()).then_some(observed.read_at);
        }
        if self.quiet_since.is_none() && has_begun {
            (self.phase, self.ended) = (Phase::Draining, None);
        }
    }

    fn begin_once(&mut self, policy: &DrainPolicy, now: Moment) -> Option<Action> {
        let is_due = policy.begins() && now >= self.began + policy.delay;
        (is_due && self.begin.send(policy.patience, now)).then_some(Action::Begin)
    }

    /// Whether the last call of the drain is yet to be made.
    pub(crate) fn awaits_finish_call(&self, policy: &DrainPolicy) -> bool {
        self.phase == Phase::Drained && policy.finishes() && !self.finish.has_ended()
    }

    /// The duration of the drain, up to now or to its end.
    pub fn duration(&self, now: Moment) -> Millis {
        match self.phase {
            Phase::Serving => Millis(0),
            _ => self.ended.unwrap_or(now) - self.began,
        }
    }

    /// Streams that began after the drain had begun.
    pub fn late_streams(&self, begun: u64) -> u64 {
        if self.phase == Phase::Serving { 0 } else { begun.saturating_sub(self.begun_before) }
    }
}

/// Whether the counts of live counters and of Envoy are zero, and only the gauges are not: they
/// show streams of a dead VM, or cannot be true. A counter that may be alive still owns its
/// streams.
fn is_healable(observed: &Observation) -> bool {
    matches!(observed.count, CountState::Leaking | CountState::Miscounted)
        && !observed.may_revive
        && observed.envoy == EnvoyCount::Holds(0)
        && observed.in_flight == 0
}

#[cfg(all(test, not(target_arch = "wasm32")))]
#[path = "record_properties.rs"]
mod properties;

#[cfg(test)]
#[path = "record_tests.rs"]
mod tests;
