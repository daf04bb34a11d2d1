//! What each event changes before the evaluation: requests that are held, commands, ends of calls.

use crate::app;
use crate::cancelling::{self, IS_FINISHING, STAYS_SEALED, Undo};
use crate::effects::{Answer, Call, Counter, Effect, IndexChange, Level};
use crate::event::{Command, Ended, Event};
use crate::notify;
use crate::phase::Phase;
use crate::policy::Policy;
use crate::protocol::Worker;
use crate::samples::AdminFault;
use crate::signals::{ASKING, SignalKind};
use crate::stats::Stats;
use crate::step::CallEnd;
use crate::timing::{
    AFTER_DEADLINE, ASKED_FOR_STRANGERS, JUST_ASKED, MOST_READY_WAIT, READY_WAIT, SIGNAL_WAIT,
    STATUS_WAIT,
};
use crate::turn::Turn;
use crate::waiting::{Needs, Waiter, WaitsFor};

const ALREADY_OPEN: &str =
    "no drain begins: the one before opened the gate; DELETE /drain closes it";

/// The stream of a request that is none: a periodic evaluation.
const NO_STREAM: u32 = 0;

impl Worker {
    pub(crate) fn receive(&mut self, turn: &mut Turn<'_, '_>) {
        let back = self.census.receive(turn.facts);
        for (change, queues) in
            [(IndexChange::Revive, back), (IndexChange::Remove, self.census.to_remove(turn.facts))]
        {
            if !queues.is_empty() {
                turn.push(Effect::ChangeIndex(change, queues));
            }
        }
    }

    /// Applies an event to the record and the requests that are held.
    pub(crate) fn apply(&mut self, event: Event, turn: &mut Turn<'_, '_>) {
        match event {
            Event::Tick => {
                turn.is_tick = true;
                turn.wants_round = self.period > 0;
            }
            Event::PeriodicEvaluation => {
                self.hold_for_counts(NO_STREAM, WaitsFor::Metrics, true, turn)
            }
            Event::Request { stream, command, has_access } => {
                self.obey(stream, command, has_access, turn)
            }
            Event::CallEnded(call, ended) => self.call_has_ended(call, ended, turn),
            _ => {}
        }
    }

    fn obey(&mut self, stream: u32, command: Command, has_access: bool, turn: &mut Turn<'_, '_>) {
        let now = turn.facts.now;
        let ready_wait =
            READY_WAIT.saturating_add(turn.facts.pacing.longest_wait()).min(MOST_READY_WAIT);
        match command {
            Command::Status => self.hold_for_counts(stream, WaitsFor::Counts, has_access, turn),
            Command::Streams(limit) => {
                self.hold_for_counts(stream, WaitsFor::Listing(limit), has_access, turn)
            }
            Command::Ready => self.hold_next(stream, WaitsFor::Ready, now + ready_wait, turn),
            Command::PreStop(0) => {
                self.begin_drain(turn);
                self.hold_next(stream, WaitsFor::Ready, now + ready_wait, turn);
            }
            Command::PreStop(wait) => {
                self.begin_drain(turn);
                // Another hook may have begun the drain, long before this one.
                let latest = turn.record.deadline.max(now).saturating_add(AFTER_DEADLINE);
                let until = now.saturating_add(wait).min(latest);
                self.hold_next(stream, WaitsFor::Opening, until, turn);
            }
            Command::Drain => {
                self.begin_drain(turn);
                let is_open = turn.record.phase.is_unconditionally_open();
                turn.outcome(
                    stream,
                    202,
                    if is_open { ALREADY_OPEN } else { "the drain has begun" },
                );
            }
            Command::Cancel => self.cancel_drain(stream, turn),
            Command::Force(why) => {
                turn.record.force(&self.policy, now, turn.facts.counts.begun[0], &why);
                turn.show_phase();
                turn.push(Effect::Increment(Counter::Forced));
                turn.log(Level::Critical, format!("the gate was forced open: {why}"));
                turn.outcome(stream, 200, "the gate is open");
            }
            Command::Signal { path, is_graceful } => {
                if is_graceful {
                    return turn.call(Call::Signal { stream, path, is_latched: false });
                }
                // Envoy is queried again once the latch is closed, so a valid count is enough to
                // try. A held signal makes every counter check the latch.
                let until = now
                    .saturating_add(SIGNAL_WAIT)
                    .saturating_add(turn.facts.pacing.longest_wait());
                let needs = Needs { round: self.census.round + 1, query: 0 };
                let waits_for = WaitsFor::Signal;
                self.waiting.hold(Waiter { stream, waits_for, until, needs, path });
                turn.wants_round = true;
            }
        }
    }

    fn begin_drain(&mut self, turn: &mut Turn<'_, '_>) {
        let (now, begun) = (turn.facts.now, turn.facts.counts.begun[0]);
        if turn.record.drain(&self.policy, now, begun) {
            let Policy { deadline, quiet, .. } = &*self.policy;
            let line = format!("the drain begins: deadline in {deadline} ms, quiet for {quiet} ms");
            turn.log(Level::Warning, line);
            turn.show_phase();
            turn.wants_round = true; // the quiet period begins now, not with the first tick
        }
    }

    /// Cancels the gate's drain, and Envoy's if that is possible.
    fn cancel_drain(&mut self, stream: u32, turn: &mut Turn<'_, '_>) {
        let began = turn.record.began;
        let cancelled = cancelling::cancel(&mut turn.record, &self.policy);
        if cancelled.is_finishing {
            turn.log(Level::Warning, "a drain was cancelled after its last call was sent");
        }
        let behind = self.behind_cancellation(cancelled.is_finishing, turn);
        if !cancelled.was_draining && !cancelled.has_begun {
            return turn.outcome(stream, 200, format!("there is no drain{behind}"));
        }
        if cancelled.was_draining {
            turn.push(Effect::StopEnds(began));
        }
        turn.show_phase();
        turn.wants_round = true;
        let was_draining = cancelled.was_draining;
        match cancelled.undo(&self.policy) {
            Some(undo) => self.answer_cancelled(stream, was_draining, undo, behind, turn),
            None => turn.call(Call::Cancel {
                stream,
                was_draining,
                may_begin_late: cancelled.may_begin_late,
                is_finishing: cancelled.is_finishing,
            }),
        }
    }

    fn behind_cancellation(&self, is_finishing: bool, turn: &Turn<'_, '_>) -> &'static str {
        match is_finishing {
            _ if turn.facts.latch.is_sealed => STAYS_SEALED,
            true => IS_FINISHING,
            false => "",
        }
    }

    fn answer_cancelled(
        &self,
        stream: u32,
        was_draining: bool,
        undo: Undo,
        behind: &str,
        turn: &mut Turn<'_, '_>,
    ) {
        let ended = cancelling::cancelled_in_words(was_draining, turn.record.phase);
        turn.log(Level::Warning, format!("{ended}{}", undo.text()));
        turn.wants_round = true;
        turn.outcome(stream, 200, format!("{ended}{}{behind}", undo.text()));
    }

    /// Holds a request until counts arrive. Replies to a round that has just begun are good enough
    /// for a status. Envoy's answer is needed only if the count is zero, or if there is none yet.
    fn hold_for_counts(
        &mut self,
        stream: u32,
        waits_for: WaitsFor,
        has_access: bool,
        turn: &mut Turn<'_, '_>,
    ) {
        let now = turn.facts.now;
        let joined = if has_access { JUST_ASKED } else { ASKED_FOR_STRANGERS };
        let joins_round =
            !matches!(waits_for, WaitsFor::Listing(_)) && self.census.age_of_round(now) < joined;
        let holding = turn.facts.counts.holding(self.policy.exempts_long_lived);
        let needs_envoy =
            has_access && self.policy.has_admin() && (self.samples.is_new() || holding == 0);
        turn.wants_round |= !joins_round;
        let needs = Needs {
            round: self.census.round + u64::from(!joins_round),
            query: if needs_envoy { self.samples.next_query() } else { 0 },
        };
        let until = now + if needs_envoy { READY_WAIT } else { STATUS_WAIT };
        self.waiting.hold(Waiter { stream, waits_for, until, needs, path: String::new() });
    }

    /// The numbers of the next requests to the counters and to Envoy.
    pub(crate) fn next_answers(&self) -> Needs {
        Needs { round: self.census.round + 1, query: self.samples.next_query() }
    }

    /// Holds a request. The response must be true when it is sent, so it needs answers to later
    /// queries of the counters and Envoy.
    fn hold_next(&mut self, stream: u32, waits_for: WaitsFor, until: u64, turn: &mut Turn<'_, '_>) {
        turn.wants_round = true;
        let needs = self.next_answers();
        self.waiting.hold(Waiter { stream, waits_for, until, needs, path: String::new() });
    }

    /// Forgets a request that was answered, or whose client has gone.
    pub(crate) fn forget(&mut self, stream: u32, turn: &mut Turn<'_, '_>) {
        self.waiting.forget(stream);
        if self.latched.take_if(|signal| signal.is_of_stream(stream)).is_some() {
            turn.push(Effect::OpenLatch);
        }
    }

    fn call_has_ended(&mut self, call: Call, ended: Ended, turn: &mut Turn<'_, '_>) {
        let Ended { end, is_from_upstream, body } = ended;
        let seals = call.ends_envoy() && end.may_have_arrived();
        match call {
            Call::Begin => {
                if cancelling::begin_has_ended(&mut turn.record, end) && self.policy.can_undo() {
                    turn.call(Call::UndoAgain); // Envoy may have got it after the undo
                }
                log_failure(end, "the call that makes traffic leave failed", turn);
            }
            Call::UndoAgain => cancelling::undo_has_ended(&mut turn.record, &self.policy, end),
            Call::Cancel { stream, was_draining, may_begin_late, is_finishing } => {
                cancelling::undo_has_ended(&mut turn.record, &self.policy, end);
                let undo = if end.is_success() { Undo::Done } else { Undo::Failed };
                let behind = self.behind_cancellation(is_finishing, turn);
                self.answer_cancelled(stream, was_draining, undo, behind, turn);
                if may_begin_late && end.is_success() && turn.record.phase == Phase::Serving {
                    turn.call(Call::UndoAgain);
                }
            }
            Call::Finish if end == CallEnd::NotMade => {
                turn.record.finish.withdraw();
                turn.push(Effect::OpenLatch);
            }
            Call::Finish => {
                turn.record.finish.record(end);
                log_failure(end, "the last call failed", turn);
                if seals { turn.seal() } else { turn.push(Effect::OpenLatch) }
            }
            Call::Signal { stream, is_latched, .. } => {
                if seals {
                    turn.seal();
                } else if is_latched {
                    turn.push(Effect::OpenLatch);
                }
                match end {
                    CallEnd::Answered(status) => {
                        turn.answer(stream, Answer::FromEnvoy(status, body))
                    }
                    CallEnd::NotMade => turn.outcome(stream, 503, ASKING),
                    CallEnd::TimedOut => turn.answer(stream, Answer::FromEnvoy(504, body)),
                    _ => turn.outcome(stream, 502, "Envoy's admin interface did not answer"),
                }
            }
            Call::Stats { .. } => self.stats_have_arrived(end, &body, turn),
            Call::App => {
                self.app.is_running = false;
                let state = app::from_response(end, is_from_upstream, &body);
                self.app.reply = Some((self.app.asked_at, state));
            }
            Call::Notify { began } => notify::has_ended(began, end, turn),
        }
    }

    /// Handles Envoy's statistics. If Envoy has requests, or its total was needed, the counters are
    /// asked again, because only they know which of Envoy's requests do not hold the drain.
    fn stats_have_arrived(&mut self, end: CallEnd, body: &str, turn: &mut Turn<'_, '_>) {
        let parse = || Stats::parse(body, self.policy.connection_managers());
        let answer = match end {
            CallEnd::Answered(200) => parse().ok_or(AdminFault::Foreign),
            CallEnd::Answered(status) => Err(AdminFault::Status(status)),
            CallEnd::TimedOut => Err(AdminFault::TimedOut),
            CallEnd::Reset => Err(AdminFault::Reset),
            CallEnd::Refused => Err(AdminFault::Refused),
            CallEnd::NotMade => {
                self.samples.withdraw_query();
                return self.withdraw_signal(turn);
            }
        };
        self.samples.end_query(turn.facts.now, self.census.round + 1, answer);
        let total = answer.is_ok().then(|| self.samples.needed_total()).flatten();
        if let Some((at, total)) = total {
            turn.total = total;
            turn.push(Effect::ShareTotal(at, total));
        }
        let is_active = |stats: Stats| stats.active.is_some_and(|active| active > 0);
        turn.wants_round |= total.is_some() || answer.is_ok_and(is_active);
    }

    /// Another worker has made the query that the signal behind the latch needs.
    fn withdraw_signal(&mut self, turn: &mut Turn<'_, '_>) {
        let Some(signal) = self.latched.take() else { return };
        turn.push(Effect::OpenLatch);
        self.try_later(signal.kind, 0, turn);
    }

    pub(crate) fn try_later(&mut self, kind: SignalKind, query: u64, turn: &mut Turn<'_, '_>) {
        match kind {
            SignalKind::Finish => turn.record.finish.postpone(),
            SignalKind::Operator { stream, path, until } => {
                let (waits_for, needs) = (WaitsFor::Signal, Needs { query, ..self.next_answers() });
                self.waiting.hold(Waiter { stream, waits_for, until, needs, path });
            }
        }
    }
}

fn log_failure(end: CallEnd, line: &str, turn: &mut Turn<'_, '_>) {
    if !end.is_success() {
        turn.log(Level::Warning, line);
    }
}
