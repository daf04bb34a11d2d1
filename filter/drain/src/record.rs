//! The drain as a state machine. Pure: an observation goes in, a reason and an action come out. All
//! workers update one shared record, one after the other.
//!
//! `drained` is an observation, not a promise: it holds for the moment of the evaluation. If Envoy
//! outlives an open gate, the gate serves again: after a drain that reached zero at its deadline or
//! a little later, else [`Policy::open_for`] after it opened.

use crate::count_state::CountState;
use crate::observation::{App, EnvoyCount, Observation, Reason};
use crate::phase::Phase;
use crate::policy::{Finish, Policy};
use crate::step::{CallEnd, Step};
use crate::timing::{AFTER_DEADLINE, LOG_INTERVAL};

/// The state of a drain, which all workers share.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Record {
    /// The phase of the drain.
    pub phase: Phase,
    /// The beginning of the drain. Times are milliseconds of Envoy's monotonic clock.
    pub began: u64,
    /// The time at which the gate opens, whatever is in flight.
    pub deadline: u64,
    /// The time at which the gate opened; 0 while it has not.
    pub ended: u64,
    /// The counter of begun streams when the drain began.
    pub begun_before: u64,
    /// That counter at the last evaluation.
    pub begun_last: u64,
    /// The beginning of the quiet period: since then nothing has been in flight and nothing has
    /// begun, no bytes wait to be written, and the app is gone if it matters. 0 if that is not so
    /// now.
    pub quiet_since: u64,
    /// The call that tells clients to leave. Its state is kept after the drain, until the call is
    /// undone.
    pub begin: Step,
    /// The call after the last stream.
    pub finish: Step,
    /// The time of the last log line that shows why the gate waits.
    pub logged_at: u64,
    /// The operator's reason for forcing the gate open.
    pub force_reason: String,
}

impl Default for Record {
    fn default() -> Self {
        Self {
            phase: Phase::Serving,
            began: 0,
            deadline: 0,
            ended: 0,
            begun_before: 0,
            begun_last: 0,
            quiet_since: 0,
            begin: Step::Due,
            finish: Step::Due,
            logged_at: 0,
            force_reason: String::new(),
        }
    }
}

/// The next action of a worker. Only one worker gets a call, because the record then shows it as
/// under way; [`Self::Heal`] is claimed by the worker that performs it.
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
    pub(crate) fn claim_log(&mut self, now: u64) -> bool {
        let is_due =
            self.phase == Phase::Draining && now.saturating_sub(self.logged_at) >= LOG_INTERVAL;
        if is_due {
            self.logged_at = now;
        }
        is_due
    }

    /// Begins a drain, and returns whether it did. A second call changes nothing.
    pub fn drain(&mut self, policy: &Policy, now: u64, begun: u64) -> bool {
        self.reset_when_over(policy, now, 0);
        let begins = self.phase == Phase::Serving;
        if begins {
            *self = Self {
                phase: Phase::Draining,
                began: now,
                deadline: now.saturating_add(policy.deadline),
                begun_before: begun,
                begun_last: begun,
                begin: self.begin_again(policy),
                ..Self::default()
            };
        }
        begins
    }

    /// The begin call of a new drain. If an earlier call was not undone, the step is not `Due`, so
    /// that a cancelled drain undoes the call.
    fn begin_again(&self, policy: &Policy) -> Step {
        match self.begin {
            _ if !policy.begins() => Step::Done,
            Step::Due => Step::Due,
            _ => Step::UnderWay { since: 0, tries: 0 },
        }
    }

    /// Records the end of a begin call. One that was undone meanwhile, or is of an earlier
    /// drain, may have reached Envoy late: a drain that has not made its own call yet then knows
    /// of it.
    pub(crate) fn begin_has_answered(&mut self, end: CallEnd) {
        if self.begin == Step::Due && self.phase != Phase::Serving {
            self.begin = Step::UnderWay { since: 0, tries: 0 };
        } else {
            self.begin.record(end);
        }
    }

    /// Records that an earlier begin call was undone. If another drain has begun since, the call is
    /// made again.
    pub(crate) fn begin_is_undone(&mut self, policy: &Policy) {
        self.begin =
            if self.phase == Phase::Serving { Step::Due } else { self.begin_again(policy) };
    }

    /// Opens the gate, whatever is in flight.
    pub fn force(&mut self, policy: &Policy, now: u64, begun: u64, why: &str) {
        self.reset_when_over(policy, now, 0);
        if self.phase != Phase::Forced {
            if self.phase == Phase::Serving {
                (self.began, self.begun_before) = (now, begun);
            }
            self.phase = Phase::Forced;
            self.ended = now;
            self.force_reason = why.into();
        }
    }

    /// Serves again when a drain is over but Envoy still runs. A drain that reached zero ends with
    /// its deadline, because a later hook gets a separate deadline; without a later hook, it
    /// stays `drained` for at least `stays_drained`, and for up to [`Policy::open_for`] longer
    /// until the last call has been made. A drain that no worker has evaluated since its deadline
    /// must not open for a later hook either.
    fn reset_when_over(&mut self, policy: &Policy, now: u64, stays_drained: u64) {
        if self.phase.is_draining() {
            // A new configuration can make the deadline earlier, but not later, and not earlier
            // than now.
            let configured = self.began.saturating_add(policy.deadline);
            self.deadline = self.deadline.min(configured.max(now));
        }
        let is_over = match self.phase {
            Phase::Drained => {
                let end = self.deadline.max(self.ended.saturating_add(stays_drained));
                let more = if self.awaits_finish_call(policy) { policy.open_for } else { 0 };
                now >= end.saturating_add(more)
            }
            Phase::Expired | Phase::Forced => now >= self.ended.saturating_add(policy.open_for),
            Phase::Draining => now >= self.deadline.saturating_add(policy.open_for),
            Phase::Serving => false,
        };
        if is_over {
            self.serve_again(policy);
        }
    }

    /// Ends the drain. The state of the begin call is kept, because the end of the drain does not
    /// undo the call.
    pub(crate) fn serve_again(&mut self, policy: &Policy) {
        let begin = if policy.begins() { self.begin } else { Step::Due };
        *self = Self { begin, ..Self::default() };
    }

    /// Applies one observation. Returns why the gate is closed or open, and the next action.
    pub fn evaluate(
        &mut self,
        policy: &Policy,
        now: u64,
        observed: &Observation,
    ) -> (Reason, Option<Action>) {
        self.reset_when_over(policy, now, AFTER_DEADLINE);
        let heal = is_healable(observed).then_some(Action::Heal);
        match self.phase {
            Phase::Serving => return (Reason::NotDraining, heal),
            Phase::Expired | Phase::Forced => return (Reason::Open(self.phase), heal),
            Phase::Draining | Phase::Drained => {}
        }
        if now >= self.deadline && self.phase == Phase::Draining {
            self.phase = Phase::Expired;
            self.ended = now;
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
        let waits =
            observed.may_revive || policy.finish == Finish::Quit && observed.others_in_flight > 0;
        let is_claimed = !waits && policy.finishes() && self.finish.claim(policy.patience, now);
        let finish = is_claimed.then_some(Action::Finish);
        // At the deadline the gate opens without the agent's answer, as it does when the drain
        // expires.
        let is_agent_told =
            policy.finish != Finish::DrainAgent || self.finish.has_ended() || now >= self.deadline;
        (if is_agent_told { reason } else { Reason::Finishing }, finish.or(heal))
    }

    /// Zero makes the drain `drained`, and a stream makes it `draining` again. A count that is not
    /// known yet changes nothing.
    fn update_phase(&mut self, reason: &Reason, now: u64) {
        match (self.phase, reason) {
            (Phase::Draining, Reason::Open(_)) => (self.phase, self.ended) = (Phase::Drained, now),
            (Phase::Drained, Reason::Open(_) | Reason::Asking) => {}
            (Phase::Drained, _) => (self.phase, self.ended) = (Phase::Draining, 0),
            _ => {}
        }
    }

    /// The reason why the drain is not over, or [`Reason::Open`] if it is. Zero is known only up to
    /// the time at which all sources have answered, because a worker may have died since. So both
    /// counts must have been asked for after the quiet period.
    fn reason_at(&mut self, policy: &Policy, now: u64, observed: &Observation) -> Reason {
        let bytes = observed.unwritten_bytes().map(Reason::Bytes);
        let is_app_unknown = policy.waits_for_app && observed.app == App::Asking;
        let app = (policy.waits_for_app && !matches!(observed.app, App::Gone | App::Asking))
            .then_some(Reason::App(observed.app));
        // A stream that begins while the counts are read is also a new one next time.
        let [before, after] = observed.begun;
        let has_begun = core::mem::replace(&mut self.begun_last, before) != after;
        if let Some(reason) = observed.in_flight_reason().or(bytes).or(app) {
            self.quiet_since = 0;
            return reason;
        }
        self.update_quiet_period(observed, has_begun);
        if self.quiet_since == 0 {
            return Reason::Asking;
        }
        if self.phase == Phase::Draining && policy.begins() && !self.begin.has_ended() {
            return Reason::Beginning;
        }
        // A drained gate has waited for clients already, even if the bytes are not known now.
        let lingers = observed.lingers && self.phase == Phase::Draining;
        let needed = policy.quiet.max(if lingers { policy.linger } else { 0 });
        let end = self.quiet_since.saturating_add(needed);
        if is_app_unknown && (self.phase == Phase::Draining || now < end) {
            Reason::App(App::Asking)
        } else if now < end {
            Reason::Quiet { since: self.quiet_since }
        } else if !is_app_unknown && observed.is_complete() && observed.known_until >= end {
            Reason::Open(Phase::Drained)
        } else {
            Reason::Asking
        }
    }

    /// Begins the quiet period, or begins it anew if a stream has begun. It does not begin while
    /// neither count is known, because a stream may be in flight.
    fn update_quiet_period(&mut self, observed: &Observation, has_begun: bool) {
        if self.quiet_since == 0 || has_begun {
            self.quiet_since = if observed.is_unknown() { 0 } else { observed.read_at };
        }
        if self.quiet_since == 0 && has_begun {
            (self.phase, self.ended) = (Phase::Draining, 0);
        }
    }

    fn begin_once(&mut self, policy: &Policy, now: u64) -> Option<Action> {
        let due = policy.begins() && now >= self.began.saturating_add(policy.delay);
        (due && self.begin.claim(policy.patience, now)).then_some(Action::Begin)
    }

    /// Whether the last call of the drain is yet to be made.
    pub(crate) fn awaits_finish_call(&self, policy: &Policy) -> bool {
        self.phase == Phase::Drained && policy.finishes() && !self.finish.has_ended()
    }

    /// The duration of the drain, up to now or to its end; milliseconds.
    pub fn duration(&self, now: u64) -> u64 {
        let until = if self.ended == 0 { now } else { self.ended };
        if self.began == 0 { 0 } else { until.saturating_sub(self.began) }
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
