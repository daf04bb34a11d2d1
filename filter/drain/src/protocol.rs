//! The protocol of the drain, and the one place to read it: an event of one worker and the facts of
//! that moment go in, the new record and the effects come out. Nothing here calls Envoy.
//!
//! | question | answer |
//! |---|---|
//! | When does a 200 leave? | [`Worker::answer_waiting`]: both counts were zero for the whole quiet |
//! | | period, by answers that are newer than the request ([`View::proves_open`]) |
//! | When does a signal pass? | [`Worker::confirm_signal`]: behind the closed latch, both counts |
//! | | were asked for again and are zero |
//! | Who closes the latch? | [`Worker::close_latch`], for one signal at a time |
//! | What ends a drain? | [`Record::evaluate`]: zero that lasts, the deadline, a force, a cancel |

use std::sync::Arc;

use crate::app;
use crate::cancelling::{self, IS_FINISHING, STAYS_SEALED, Undo};
use crate::census::{Census, RoundOptions};
use crate::count_state::CountState;
use crate::effects::{Answer, Call, Counter, Effect, Effects, Gauge, IndexChange, Level};
use crate::ends::EndView;
use crate::event::{Command, Ended, Event};
use crate::facts::Facts;
use crate::messages::Order;
use crate::observation::{App, Observation};
use crate::observe::{Sources, needs_totals};
use crate::phase::Phase;
use crate::policy::Policy;
use crate::record::{Action, Record};
use crate::samples::{AdminFault, BeforeQuery, EnvoySamples};
use crate::schedule::{Schedule, StatsQuery};
use crate::signals::{
    ASKING, BUSY, IN_FLIGHT, LatchedSignal, SignalKind, SignalStep, UNSEEN, step_of_waiter,
};
use crate::stats::Stats;
use crate::step::{CallEnd, Step};
use crate::survey::Survey;
use crate::timing::{
    AFTER_DEADLINE, ASKED_FOR_STRANGERS, END_ASK_INTERVAL, END_INTERVAL, HEALING_LASTS, JUST_ASKED,
    LATCH_SLACK, LATCHED_FOR, MOST_READY_WAIT, NOTICE_INTERVAL, READY_WAIT, SIGNAL_WAIT,
    STATUS_WAIT, YOUNG,
};
use crate::turn::Turn;
use crate::view::View;
use crate::waiting::{Needs, Waiter, Waiting, WaitsFor};
use crate::words::{fault_in_words, sentence};

/// The stream of a request that is none: a routine evaluation.
const NO_STREAM: u32 = 0;
const ALREADY_OPEN: &str =
    "no drain begins: the one before opened the gate; DELETE /drain closes it";

/// The gate of one worker.
#[derive(Debug, Clone)]
pub struct Worker {
    policy: Arc<Policy>,
    census: Census,
    samples: EnvoySamples,
    waiting: Waiting,
    latched: Option<LatchedSignal>,
    app: AppQuery,
    ends: Ends,
    /// Since when the count shows signs of a leak.
    leak_since: Option<u64>,
    period: u64,
}

/// The last query to the app.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
struct AppQuery {
    asked_at: u64,
    is_running: bool,
    reply: Option<(u64, App)>,
}

/// The last order, question and notice of this worker.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
struct Ends {
    ordered_at: u64,
    asked_at: u64,
    look_since: u64,
    noticed_at: u64,
}

impl core::hash::Hash for Worker {
    /// The state that decisions depend on, without the policy.
    fn hash<H: core::hash::Hasher>(&self, state: &mut H) {
        (&self.census, &self.samples, &self.waiting, &self.latched).hash(state);
        (self.app, self.ends, self.leak_since.is_some(), self.period).hash(state);
    }
}

impl Worker {
    /// A gate that has seen nothing yet.
    #[must_use]
    pub fn new(policy: Arc<Policy>) -> Self {
        Self {
            policy,
            census: Census::default(),
            samples: EnvoySamples::default(),
            waiting: Waiting::default(),
            latched: None,
            app: AppQuery::default(),
            ends: Ends::default(),
            leak_since: None,
            period: 0,
        }
    }

    /// Whether there is nothing to do.
    #[must_use]
    pub fn is_idle(&self) -> bool {
        self.period == 0
    }

    /// Handles one event. The shell calls this once in each callback.
    pub fn on(&mut self, event: Event, facts: &Facts<'_>) -> Effects {
        let mut turn = Turn::new(facts);
        let view = match event {
            Event::StreamGone(stream) => {
                self.forget(stream, &mut turn);
                None
            }
            Event::Deleted { ends_envoy: true } => {
                turn.seal();
                None
            }
            Event::Deleted { ends_envoy: false } => {
                turn.push(Effect::OpenLatch);
                None
            }
            Event::Configured => {
                turn.show_phase();
                self.set_tick(&mut turn);
                None
            }
            event => Some(self.decide(event, &mut turn)),
        };
        Effects { record: turn.record, view, list: turn.effects }
    }

    /// One evaluation, and all that follows from it.
    fn decide(&mut self, event: Event, turn: &mut Turn<'_, '_>) -> View {
        let is_waking = self.period > 0 || matches!(event, Event::Request { .. } | Event::Routine);
        self.receive(turn);
        self.apply(event, turn);
        let (view, action) = self.evaluate(turn);
        self.confirm_signal(&view, turn);
        self.perform(action, &view, turn);
        self.notify_app(turn);
        self.answer_waiting(&view, turn);
        if is_waking {
            self.query(&view, turn);
            self.ask_counters(turn);
        }
        turn.later.drain(..).for_each(|waiter| self.waiting.hold(waiter));
        self.set_tick(turn);
        view
    }

    fn receive(&mut self, turn: &mut Turn<'_, '_>) {
        let back = self.census.receive(turn.facts);
        for (change, queues) in
            [(IndexChange::Revive, back), (IndexChange::Remove, self.census.to_remove(turn.facts))]
        {
            if !queues.is_empty() {
                turn.push(Effect::ChangeIndex(change, queues));
            }
        }
    }

    /// Applies what has happened to the record and the requests that are held.
    fn apply(&mut self, event: Event, turn: &mut Turn<'_, '_>) {
        match event {
            Event::Tick => {
                turn.is_tick = true;
                turn.wants_round = self.period > 0;
            }
            Event::Routine => self.hold_for_counts(NO_STREAM, WaitsFor::Metrics, true, turn),
            Event::Request { stream, command, has_access } => {
                self.obey(stream, command, has_access, turn)
            }
            Event::CallEnded(call, ended) => self.call_has_ended(call, ended, turn),
            _ => {}
        }
    }

    // === requests ===

    fn obey(&mut self, stream: u32, command: Command, has_access: bool, turn: &mut Turn<'_, '_>) {
        let now = turn.facts.now;
        let ready_wait =
            READY_WAIT.saturating_add(turn.facts.pacing.longest_wait()).min(MOST_READY_WAIT);
        match command {
            Command::Status => self.hold_for_counts(stream, WaitsFor::Counts, has_access, turn),
            Command::Streams(limit) => {
                self.hold_for_counts(stream, WaitsFor::Listing(limit), has_access, turn)
            }
            Command::Ready => self.hold_next(stream, WaitsFor::Ready, now + ready_wait),
            Command::PreStop(0) => {
                self.begin_drain(turn);
                self.hold_next(stream, WaitsFor::Ready, now + ready_wait);
            }
            Command::PreStop(wait) => {
                self.begin_drain(turn);
                // Another hook may have begun the drain, long before this one.
                let latest = turn.record.deadline.max(now).saturating_add(AFTER_DEADLINE);
                self.hold_next(stream, WaitsFor::Opening, now.saturating_add(wait).min(latest));
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
                turn.record.force(now, turn.facts.counts.begun[0], &why);
                turn.show_phase();
                turn.push(Effect::Increment(Counter::Forced));
                turn.log(Level::Critical, format!("the gate was forced open: {why}"));
                turn.outcome(stream, 200, "the gate is open");
            }
            Command::Signal { path, is_graceful } => {
                // Whether the gate is open is known only after the evaluation: its time may be over.
                if is_graceful {
                    return turn.call(Call::Signal { stream, path, is_latched: false });
                }
                // Envoy is queried again once the latch is closed, so a valid count is enough to
                // try. A held signal makes every counter check the latch.
                let until = now + SIGNAL_WAIT + turn.facts.pacing.longest_wait();
                let needs = Needs { round: self.census.round() + 1, query: 0 };
                let waits_for = WaitsFor::Signal;
                self.waiting.hold(Waiter { stream, waits_for, until, needs, path });
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
        turn.push(Effect::StopEnds(began));
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
        turn: &Turn<'_, '_>,
    ) {
        let now = turn.facts.now;
        let joined = if has_access { JUST_ASKED } else { ASKED_FOR_STRANGERS };
        let joins_round =
            !matches!(waits_for, WaitsFor::Listing(_)) && self.census.age_of_round(now) < joined;
        let holding = turn.facts.counts.holding(self.policy.exempts_long_lived);
        let needs_envoy =
            has_access && self.policy.has_admin() && (self.samples.is_new() || holding == 0);
        let needs = Needs {
            round: self.census.round() + u64::from(!joins_round),
            query: if needs_envoy { self.samples.next_query() } else { 0 },
        };
        let until = now + if needs_envoy { READY_WAIT } else { STATUS_WAIT };
        self.waiting.hold(Waiter { stream, waits_for, until, needs, path: String::new() });
    }

    /// The numbers of the next requests to the counters and to Envoy.
    fn next_answers(&self) -> Needs {
        Needs { round: self.census.round() + 1, query: self.samples.next_query() }
    }

    /// Holds a request. The response must be true when it is sent, so it needs answers to later
    /// queries of the counters and Envoy.
    fn hold_next(&mut self, stream: u32, waits_for: WaitsFor, until: u64) {
        let needs = self.next_answers();
        self.waiting.hold(Waiter { stream, waits_for, until, needs, path: String::new() });
    }

    /// Forgets a request that was answered, or whose client has gone.
    fn forget(&mut self, stream: u32, turn: &mut Turn<'_, '_>) {
        self.waiting.forget(stream);
        if self.latched.take_if(|signal| signal.is_of_stream(stream)).is_some() {
            turn.push(Effect::OpenLatch);
        }
    }

    // === calls ===

    fn call_has_ended(&mut self, call: Call, ended: Ended, turn: &mut Turn<'_, '_>) {
        let Ended { end, is_from_upstream, body } = ended;
        let seals = call.ends_envoy() && end.may_have_arrived();
        match call {
            Call::Begin => {
                if cancelling::begin_has_ended(&mut turn.record, end) {
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
            Call::Notify { began } => notify_has_ended(began, end, turn),
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
        self.samples.end_query(turn.facts.now, self.census.round() + 1, answer);
        let total = answer.is_ok().then(|| self.samples.needed_total()).flatten();
        if let Some((at, total)) = total {
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

    fn try_later(&mut self, kind: SignalKind, query: u64, turn: &mut Turn<'_, '_>) {
        match kind {
            SignalKind::Finish => turn.record.finish.postpone(),
            SignalKind::Operator { stream, path, until } => {
                let (waits_for, needs) = (WaitsFor::Signal, Needs { query, ..self.next_answers() });
                let waiter = Waiter { stream, waits_for, until, needs, path };
                // One that needs newer answers asks in a later callback, at the latest with the next
                // tick. Otherwise each answer would begin the next query, without a pause.
                match query {
                    0 => self.waiting.hold(waiter),
                    _ => turn.later.push(waiter),
                }
            }
        }
    }

    // === one evaluation ===

    /// Observes, and updates the record.
    fn evaluate(&mut self, turn: &mut Turn<'_, '_>) -> (View, Option<Action>) {
        let facts = turn.facts;
        let survey = Survey::new(&self.census, &self.policy, facts, self.samples.round());
        // An answer from before this drain is no answer about it.
        let app = self.app.reply.filter(|(asked_at, _)| *asked_at >= turn.record.began);
        let (policy, samples) = (&*self.policy, &self.samples);
        let observed = Sources { policy, facts, survey: &survey, samples, app }.observe();
        let phase_before = turn.record.phase;
        let (reason, action) = turn.record.evaluate(policy, facts.now, &observed);
        let logs = turn.record.claim_log(facts.now);
        let has_drain = policy.notify_patience.is_some() && turn.record.phase != Phase::Serving;
        let view = View {
            now: facts.now,
            stats: samples.stats(facts.now),
            answered_query: if policy.has_admin() { samples.answered_query() } else { u64::MAX },
            fault: samples.fault(),
            observed,
            record: turn.record.clone(),
            reason,
            notify: has_drain.then(|| notify_step(turn)),
            ends: self.end_view(&turn.record, facts),
            survey,
        };
        if logs {
            turn.log(Level::Info, format!("draining: {}", sentence(&view, policy)));
        }
        self.report(phase_before, &view, turn);
        self.look_for_leaks(&view.observed, facts.now);
        (view, action)
    }

    fn end_view(&self, record: &Record, facts: &Facts<'_>) -> Option<EndView> {
        let window = facts.ends.window(&self.policy.end, record)?;
        let survey = self.census.end_survey(facts, &self.policy.scopes);
        let left = (survey.answered > 0).then_some(survey.endable);
        Some(EndView { kinds: self.policy.end.kinds, left, window })
    }

    fn look_for_leaks(&mut self, observed: &Observation, now: u64) {
        let is_suspicious = matches!(observed.count, CountState::Leaking | CountState::Miscounted)
            || self.waiting.any(WaitsFor::Signal) && observed.holding > observed.in_flight;
        let goes_on = self.is_healing(now) && observed.holding > observed.in_flight;
        self.leak_since = (is_suspicious || goes_on).then(|| self.leak_since.unwrap_or(now));
    }

    fn is_healing(&self, now: u64) -> bool {
        self.leak_since.is_some_and(|since| now.saturating_sub(since) < HEALING_LASTS)
    }

    fn report(&self, phase_before: Phase, view: &View, turn: &mut Turn<'_, '_>) {
        let (record, facts) = (&view.record, turn.facts);
        let late = record.late_streams(facts.counts.begun[1]);
        let lasted = record.duration(view.now);
        for (gauge, value) in [
            (Gauge::Late, late),
            (Gauge::Seconds, lasted / 1_000),
            (Gauge::Holding, view.observed.holding),
            (Gauge::Count, view.observed.count as u64),
        ] {
            turn.push(Effect::Set(gauge, value));
        }
        if phase_before == record.phase {
            return;
        }
        turn.show_phase();
        let line = match record.phase {
            Phase::Serving => {
                "the drain is over, and Envoy is still alive: the gate serves again".into()
            }
            Phase::Draining => format!("the drain goes on: {}", sentence(view, &self.policy)),
            open => {
                let ended = match facts.ends.ordered {
                    ordered if facts.ends.began == record.began && ordered > 0 => {
                        format!("; the gate ended {ordered} streams at most")
                    }
                    _ => String::new(),
                };
                format!("the drain ends: {open} after {lasted} ms; {late} streams came late{ended}")
            }
        };
        turn.log(Level::Warning, line);
    }

    fn perform(&mut self, action: Option<Action>, view: &View, turn: &mut Turn<'_, '_>) {
        match action {
            Some(Action::Begin) => turn.call(Call::Begin),
            Some(Action::Finish) => match self.close_latch(SignalKind::Finish, turn) {
                Ok(()) => {}
                // If streams cannot read the latch's gauge, nothing can be sent safely, and the hook
                // must not wait for it.
                Err(UNSEEN) => turn.record.finish.record(CallEnd::Refused),
                Err(_) => turn.record.finish.postpone(),
            },
            Some(Action::Heal) => self.heal(&view.survey, turn),
            None => {}
        }
    }

    /// Takes leaked streams from the count, and writes off the counters that leaked them. Every live
    /// counter must have replied zero after Envoy did, and none of the gate's scopes may have
    /// counted a stream since the gauges were read; otherwise a gauge may show a stream that is in
    /// flight.
    fn heal(&self, survey: &Survey, turn: &mut Turn<'_, '_>) {
        let facts = turn.facts;
        let is_leaked = |before: &&BeforeQuery| {
            survey.completed_round >= self.samples.round()
                && facts.counts.ever_begun[0] == before.begun[0]
                && facts.heals == before.heals
                && facts.counts.cover(&before.gauges)
        };
        if let Some(before) = self.samples.leaked(facts.now).filter(is_leaked) {
            let (gauges, heals) = (before.gauges.clone(), before.heals);
            turn.push(Effect::Heal { gauges, heals, write_off: survey.lost.clone() });
        }
    }

    // === signals ===

    /// Closes the latch, which refuses new streams, and asks for both counts again. A stream is
    /// counted before it checks the latch, and the gate closes the latch before it reads the count,
    /// so one of the two sees the other.
    fn close_latch(
        &mut self,
        kind: SignalKind,
        turn: &mut Turn<'_, '_>,
    ) -> Result<(), &'static str> {
        let (facts, latch) = (turn.facts, turn.facts.latch);
        if latch.is_rejected {
            return Err(UNSEEN);
        }
        if facts.queue.is_none() {
            return Err(ASKING);
        }
        // New streams are refused from here on until Envoy has answered, so the query must begin at
        // once.
        let can_query = !self.policy.has_admin()
            || facts.pacing.is_allowed(facts.now) && !self.samples.is_running();
        // The end of the call that another signal of this gate waits for would open the latch.
        let is_closed = latch.is_taken || latch.is_held;
        if self.latched.is_some() || !can_query || is_closed && !latch.is_sealed {
            return Err(BUSY);
        }
        let patience = self.policy.patience.saturating_mul(LATCHED_FOR);
        let until = facts.now.saturating_add(patience);
        if !latch.is_sealed {
            // The call itself also takes its time.
            let closed_until = until.saturating_add(self.policy.patience + LATCH_SLACK);
            turn.push(Effect::CloseLatch(closed_until));
        }
        self.latched = Some(LatchedSignal { kind, needs: self.next_answers(), until });
        turn.wants_round = true;
        Ok(())
    }

    /// Sends the signal behind the latch, if nothing is in flight. No stream can begin meanwhile.
    fn confirm_signal(&mut self, view: &View, turn: &mut Turn<'_, '_>) {
        let latch = turn.facts.latch;
        let Some(signal) = self.latched.take_if(|signal| signal.is_ready(view, &latch)) else {
            return;
        };
        let step = signal.step(view, &self.policy, &latch);
        match (signal.kind, step) {
            (SignalKind::Operator { stream, path, .. }, SignalStep::Send) => {
                return turn.call(Call::Signal { stream, path, is_latched: true });
            }
            // Only this record can be the one that is stored: a cancel in between is seen.
            (SignalKind::Finish, SignalStep::Send) if turn.record.finish.send(view.now) => {
                return turn.call(Call::Finish);
            }
            (SignalKind::Finish, SignalStep::Refuse(_)) => {
                turn.record.finish.record(CallEnd::Refused)
            }
            (SignalKind::Operator { stream, .. }, SignalStep::Refuse(why)) => {
                self.refuse_signal(stream, why, view, turn)
            }
            (kind, _) => self.try_later(kind, self.samples.next_query(), turn),
        }
        turn.push(Effect::OpenLatch);
    }

    fn try_signal(&mut self, view: &View, waiter: Waiter, turn: &mut Turn<'_, '_>) {
        let step = step_of_waiter(view, &waiter, self.latched.is_some());
        let Waiter { stream, until, path, needs, waits_for } = waiter;
        match step {
            SignalStep::Send => turn.call(Call::Signal { stream, path, is_latched: false }),
            SignalStep::Hold => self.waiting.hold(Waiter { stream, waits_for, until, needs, path }),
            SignalStep::AwaitNext => {
                let query = self.samples.next_query();
                self.try_later(SignalKind::Operator { stream, path, until }, query, turn)
            }
            SignalStep::Refuse(why) => self.refuse_signal(stream, why, view, turn),
            SignalStep::CloseLatch => {
                let kind = SignalKind::Operator { stream, path: path.clone(), until };
                match self.close_latch(kind, turn) {
                    Ok(()) => {}
                    // Query 0 marks the signal as untried, so the next query is left to it.
                    Err(BUSY) if view.now < until => {
                        let needs = Needs { query: 0, ..needs };
                        self.waiting.hold(Waiter { stream, waits_for, until, needs, path })
                    }
                    Err(why) => self.refuse_signal(stream, why, view, turn),
                }
            }
        }
    }

    fn refuse_signal(&mut self, stream: u32, why: &str, view: &View, turn: &mut Turn<'_, '_>) {
        turn.push(Effect::Increment(Counter::Refused));
        let reason = match view.fault {
            Some(fault) if why == ASKING => fault_in_words(fault, &self.policy),
            _ => why.into(),
        };
        // A leak would refuse signals for ever.
        if why == IN_FLIGHT && view.observed.holding > view.observed.in_flight {
            self.leak_since = self.leak_since.or(Some(view.now));
        }
        turn.outcome(stream, 503, reason);
    }

    // === answers ===

    /// Answers each held request that can be answered now, at most 64 in one callback.
    fn answer_waiting(&mut self, view: &View, turn: &mut Turn<'_, '_>) {
        let limit = turn.answers_left();
        let ready = self.waiting.take_ready(limit, |waiter| view.answers(waiter));
        if ready.len() == limit {
            turn.push(Effect::Wake);
        }
        for waiter in ready {
            let (stream, needs) = (waiter.stream, waiter.needs);
            match waiter.waits_for {
                WaitsFor::Counts => turn.answer(stream, Answer::Status),
                WaitsFor::Metrics => {}
                WaitsFor::Listing(limit) => {
                    let (scopes, plain_only) =
                        (&self.policy.scopes, self.policy.exempts_long_lived);
                    let (listings, is_complete) =
                        self.census.listings(turn.facts, scopes, needs.round, plain_only);
                    turn.answer(stream, Answer::Streams { listings, is_complete, limit });
                }
                WaitsFor::Ready | WaitsFor::Opening => {
                    let is_open = view.proves_open(needs);
                    let reason = match view.is_open() && !is_open {
                        true => ASKING.into(),
                        false => sentence(view, &self.policy),
                    };
                    turn.outcome(stream, if is_open { 200 } else { 503 }, reason);
                }
                WaitsFor::Signal => self.try_signal(view, waiter, turn),
            }
        }
        if !self.waiting.needs_listing() {
            self.census.forget_listings();
        }
    }

    // === questions ===

    fn schedule<'s>(&'s self, record: &'s Record, facts: &Facts<'_>) -> Schedule<'s> {
        Schedule {
            policy: &self.policy,
            record,
            samples: &self.samples,
            waiting: &self.waiting,
            latched: self.latched.as_ref().map(|signal| signal.needs),
            is_latch_held: facts.latch.is_held,
            is_healing: self.is_healing(facts.now),
        }
    }

    /// Queries Envoy's own count and the app, if that is due.
    fn query(&mut self, view: &View, turn: &mut Turn<'_, '_>) {
        let (facts, now) = (turn.facts, view.now);
        let with_totals = needs_totals(view.survey.count_state);
        let schedule = self.schedule(&turn.record, facts);
        let is_due = match schedule.stats_query(now, with_totals) {
            StatsQuery::Due => true,
            StatsQuery::DueIfNothingHolds => view.observed.holding == 0,
            StatsQuery::NotDue => false,
        };
        // The worker that can make the last call needs the next query for itself.
        let leaves_query = self.latched.is_none()
            && schedule.awaits_finish_call()
            && facts.pacing.is_reserved(now);
        let asks_app = self.policy.waits_for_app
            && !self.app.is_running
            && schedule.is_app_query_due(now, self.app.asked_at);
        let can_query = self.policy.has_admin() && !self.samples.is_running();
        if is_due && can_query && !leaves_query && facts.pacing.is_allowed(now) {
            let (gauges, begun) = (facts.counts.gauges.clone(), facts.counts.ever_begun);
            let heals = facts.heals;
            self.samples.begin_query(BeforeQuery { at: now, gauges, begun, heals, with_totals });
            turn.call(Call::Stats { with_totals });
        }
        if asks_app {
            (self.app.asked_at, self.app.is_running) = (now, true);
            turn.call(Call::App);
        }
    }

    /// Asks the counters, if somebody waits for their replies. On a tick the requests carry the
    /// order to end streams.
    fn ask_counters(&mut self, turn: &mut Turn<'_, '_>) {
        let facts = turn.facts;
        if !turn.wants_round && self.waiting.wanted_round() <= self.census.round() {
            return;
        }
        let schedule = self.schedule(&turn.record, facts);
        let options = RoundOptions {
            latch_check: schedule.latch_check(facts.latch.is_sealed),
            long_lived_before: schedule.long_lived_before(),
            list_limit: self.waiting.list_limit(self.census.round() + 1),
            plain_only: self.policy.exempts_long_lived,
        };
        let mut requests = self.census.ask(facts, options);
        if turn.is_tick {
            self.order_ends(&mut requests, turn);
        }
        requests.into_iter().for_each(|(queue, request)| turn.push(Effect::Ask(queue, request)));
    }

    /// Claims the streams that are due to end now, and puts the order into the requests; or only
    /// asks how many streams are left.
    fn order_ends(
        &mut self,
        requests: &mut Vec<(u32, crate::messages::Request)>,
        turn: &mut Turn<'_, '_>,
    ) {
        let (facts, now, policy) = (turn.facts, turn.facts.now, Arc::clone(&self.policy));
        let Some(window) = facts.ends.window(&policy.end, &turn.record) else { return };
        if now < window.from || now.saturating_sub(self.ends.ordered_at) < END_INTERVAL {
            return;
        }
        self.ends.ordered_at = now;
        let survey = self.census.end_survey(facts, &policy.scopes);
        let mut to = facts.ends;
        let is_first = to.begin(turn.record.began);
        let count = to.claim(now, window, &survey);
        let is_question_due = now.saturating_sub(self.ends.asked_at) >= END_ASK_INTERVAL;
        if count == 0 && !is_question_due {
            return;
        }
        self.ends.asked_at = now;
        if survey.answered > 0 && survey.unseen == 0 || self.ends.look_since == 0 {
            self.ends.look_since = now;
        }
        // Counters leave young streams alone, so none of them may use up a part of the order.
        let old = now.saturating_sub(policy.end.at_age.unwrap_or(0).max(YOUNG));
        let order = Order {
            count,
            kinds: policy.end.kinds,
            changing: policy.end.changing,
            began_before: old,
            retry_after: policy.end.retry_after,
            grace: policy.end.grace,
            look_since: self.ends.look_since,
            drain: turn.record.began,
        };
        let sent = self.census.put_order(facts, &policy.scopes, order, requests);
        to.give_back(count - sent.min(count));
        let (orders, others) =
            core::mem::take(requests).into_iter().partition(|(_, request)| request.order.is_some());
        *requests = others;
        self.tell_of_ends(is_first, window.to.saturating_sub(now), turn);
        turn.push(Effect::Order { from: facts.ends, to, orders });
    }

    fn tell_of_ends(&mut self, is_first: bool, over: u64, turn: &mut Turn<'_, '_>) {
        let (now, end) = (turn.facts.now, &self.policy.end);
        if is_first {
            let kinds = end.kinds.names();
            let line = format!("the gate ends streams from now on: {kinds}; over {over} ms");
            turn.log(Level::Warning, line);
        }
        let is_due = now.saturating_sub(self.ends.noticed_at) >= NOTICE_INTERVAL;
        if end.kinds.contains(crate::kinds::StreamKind::Websocket) && is_due {
            self.ends.noticed_at = now;
            let until = now.saturating_add(2 * NOTICE_INTERVAL).saturating_add(end.grace);
            turn.push(Effect::NotifyFrames(until));
        }
    }

    /// Tells the app that the drain has begun. The drain does not wait for it.
    fn notify_app(&self, turn: &mut Turn<'_, '_>) {
        let Some(patience) = self.policy.notify_patience else { return };
        let (now, began) = (turn.facts.now, turn.record.began);
        let is_due =
            turn.record.phase == Phase::Draining && now >= began.saturating_add(self.policy.delay);
        let from = notify_step(turn);
        let mut to = from;
        if is_due && to.claim(patience, now) {
            turn.push(Effect::Notify { began, from, to });
        }
    }

    fn set_tick(&mut self, turn: &mut Turn<'_, '_>) {
        let period = self.schedule(&turn.record, turn.facts).tick_period(turn.facts.now);
        if period != self.period {
            self.period = period;
            turn.push(Effect::Tick(period));
        }
    }
}

/// The progress of the call to the app in the drain of this turn.
fn notify_step(turn: &Turn<'_, '_>) -> Step {
    let is_same = turn.record.began == turn.facts.record.began;
    if is_same { turn.facts.notify } else { Step::Due }
}

fn notify_has_ended(began: u64, end: CallEnd, turn: &mut Turn<'_, '_>) {
    let is_told = matches!(end, CallEnd::Answered(200..300));
    let from = turn.facts.notify;
    let mut to = from;
    to.record_and_pause(if is_told { CallEnd::Answered(200) } else { end }, turn.facts.now);
    if turn.record.began == began && to != from {
        turn.push(Effect::Notify { began, from, to });
    }
    match is_told {
        true => turn.log(Level::Info, "the app was told that the drain has begun"),
        false => turn.log(Level::Warning, "the call that tells the app of the drain failed"),
    }
}

fn log_failure(end: CallEnd, line: &str, turn: &mut Turn<'_, '_>) {
    if !end.is_success() {
        turn.log(Level::Warning, line);
    }
}

#[cfg(all(test, not(target_arch = "wasm32")))]
#[path = "protocol_properties.rs"]
mod properties;
