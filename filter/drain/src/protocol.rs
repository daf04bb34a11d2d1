//! The protocol of the drain, and the one place to read it: an event of one worker and the facts of
//! that moment go in, the new record and the effects come out. Nothing here calls Envoy.
//!
//! | question | answer |
//! |---|---|
//! | When does a 200 leave? | [`Worker::answer_waiting`]: both counts were zero for the whole |
//! | | quiet period, by answers newer than the request ([`View::proves_open`]) |
//! | When does a signal pass? | [`Worker::confirm_signal`]: behind the closed latch, both counts |
//! | | were asked for again and are zero |
//! | Who closes the latch? | [`Worker::close_latch`], for one signal at a time |
//! | What ends a drain? | [`Record::evaluate`]: zero that lasts, the deadline, a force, a cancel |

use std::sync::Arc;

use crate::census::{Census, RoundOptions};
use crate::effects::{Answer, Call, Counter, Effect, Effects, Level};
use crate::end_orders::EndOrders;
use crate::ends::EndView;
use crate::event::Event;
use crate::facts::Facts;
use crate::leaks::{self, LeakWatch};
use crate::notify;
use crate::observation::App;
use crate::observe::{Sources, needs_totals};
use crate::phase::Phase;
use crate::policy::Policy;
use crate::record::{Action, Record};
use crate::report::report;
use crate::samples::{BeforeQuery, EnvoySamples};
use crate::schedule::{Schedule, StatsQuery};
use crate::signals::{
    ASKING, BUSY, IN_FLIGHT, LatchedSignal, SignalKind, SignalStep, UNSEEN, step_of_waiter,
};
use crate::step::CallEnd;
use crate::survey::Survey;
use crate::timing::{LATCH_SLACK, LATCHED_FOR, REPLY_TIMEOUT};
use crate::turn::Turn;
use crate::view::View;
use crate::waiting::{Needs, Waiter, Waiting, WaitsFor};
use crate::words::{fault_in_words, sentence};

/// The gate of one worker.
#[derive(Debug, Clone)]
pub struct Worker {
    pub(crate) policy: Arc<Policy>,
    pub(crate) census: Census,
    pub(crate) samples: EnvoySamples,
    pub(crate) waiting: Waiting,
    pub(crate) latched: Option<LatchedSignal>,
    pub(crate) app: AppQuery,
    ends: EndOrders,
    leaks: LeakWatch,
    pub(crate) period: u64,
}

/// The last query to the app.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub(crate) struct AppQuery {
    pub(crate) asked_at: u64,
    pub(crate) is_running: bool,
    pub(crate) reply: Option<(u64, App)>,
}

impl core::hash::Hash for Worker {
    /// The state that decisions depend on, without the policy.
    fn hash<H: core::hash::Hasher>(&self, state: &mut H) {
        (&self.census, &self.samples, &self.waiting, &self.latched).hash(state);
        (self.app, self.ends, self.leaks.is_some(), self.period).hash(state);
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
            ends: EndOrders::default(),
            leaks: LeakWatch::default(),
            period: 0,
        }
    }

    /// Makes the deadline of drains earlier, as a new configuration would, and returns it if it
    /// did. A drain without streams still has the time to reach zero.
    pub fn limit_deadline(&mut self, latest: u64) -> Option<u64> {
        let Policy { delay, quiet, linger, deadline, .. } = *self.policy;
        let least = delay.saturating_add(quiet.max(linger)).saturating_add(REPLY_TIMEOUT);
        let limited = latest.max(least);
        (limited < deadline).then(|| {
            Arc::make_mut(&mut self.policy).deadline = limited;
            limited
        })
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
                self.ask_counters(&mut turn);
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
        // A gate that has nothing to do asks nothing, even if a late reply arrives.
        let is_waking = self.period > 0 || !matches!(event, Event::Message | Event::Tick);
        self.receive(turn);
        self.apply(event, turn);
        let (view, action) = self.evaluate(turn);
        self.confirm_signal(&view, turn);
        self.perform(action, &view, turn);
        notify::call_when_due(&self.policy, turn);
        self.answer_waiting(&view, turn);
        if is_waking {
            self.query(&view, turn);
            self.ask_counters(turn);
        }
        self.set_tick(turn);
        view
    }

    /// Observes, and updates the record.
    fn evaluate(&mut self, turn: &mut Turn<'_, '_>) -> (View, Option<Action>) {
        let facts = turn.facts;
        let survey = Survey::new(&self.census, &self.policy, facts, self.samples.round());
        // An answer from before this drain is not an answer about it.
        let app = self.app.reply.filter(|(asked_at, _)| *asked_at >= turn.record.began);
        let (policy, samples) = (&*self.policy, &self.samples);
        let total = turn.total;
        let observed = Sources { policy, facts, survey: &survey, samples, total, app }.observe();
        let phase_before = turn.record.phase;
        turn.finish_before = turn.record.finish;
        let (reason, action) = turn.record.evaluate(policy, facts.now, &observed);
        let logs = turn.record.claim_log(facts.now);
        let has_drain = policy.notify_patience.is_some() && turn.record.phase != Phase::Serving;
        let view = View {
            now: facts.now,
            stats: samples.stats(facts.now),
            answered_query: if policy.has_admin() { samples.answered_query() } else { u64::MAX },
            fault: samples.fault,
            observed,
            record: turn.record.clone(),
            reason,
            notify: has_drain.then(|| notify::step(turn)),
            ends: self.end_view(&turn.record, facts),
            survey,
        };
        if logs {
            turn.log(Level::Info, format!("draining: {}", sentence(&view, policy)));
        }
        report(policy, phase_before, &view, turn);
        self.leaks.look(&view.observed, self.waiting.any(WaitsFor::Signal), facts.now);
        (view, action)
    }

    fn end_view(&self, record: &Record, facts: &Facts<'_>) -> Option<EndView> {
        let window = facts.ends.window(&self.policy.end, record)?;
        let survey = self.census.end_survey(facts, &self.policy.scopes);
        let left = (survey.answered > 0).then_some(survey.endable);
        Some(EndView { kinds: self.policy.end.kinds, left, window })
    }

    fn perform(&mut self, action: Option<Action>, view: &View, turn: &mut Turn<'_, '_>) {
        match action {
            Some(Action::Begin) => turn.call(Call::Begin),
            Some(Action::Finish) => match self.close_latch(SignalKind::Finish, turn) {
                Ok(()) => {}
                // If streams cannot read the latch's gauge, nothing can be sent safely, and the
                // hook must not wait for it.
                Err(UNSEEN) => turn.record.finish.record(CallEnd::Refused),
                Err(_) => turn.postpone_finish(),
            },
            Some(Action::Heal) => leaks::heal(&self.samples, &view.survey, turn),
            None => {}
        }
    }

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
        // It may be closed for a signal of this gate that is on its way.
        let is_in_use = !latch.is_sealed && (latch.is_taken || latch.is_held);
        if self.latched.is_some() || !can_query || is_in_use {
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
        if why == IN_FLIGHT {
            self.leaks.suspect(&view.observed, view.now);
        }
        turn.outcome(stream, 503, reason);
    }

    /// Answers each held request that can be answered now, at most 64 in one callback.
    fn answer_waiting(&mut self, view: &View, turn: &mut Turn<'_, '_>) {
        let limit = turn.answers_left();
        let ready = self.waiting.take_ready(limit, |waiter| view.answers(waiter));
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
        if turn.answers_left() == 0 {
            turn.push(Effect::Wake);
        }
        if !self.waiting.needs_listing() {
            self.census.forget_listings();
        }
    }

    fn schedule<'s>(&'s self, record: &'s Record, facts: &Facts<'_>) -> Schedule<'s> {
        Schedule {
            policy: &self.policy,
            record,
            samples: &self.samples,
            waiting: &self.waiting,
            latched: self.latched.as_ref().map(|signal| signal.needs),
            is_latch_held: facts.latch.is_held,
            is_healing: self.leaks.is_healing(facts.now),
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
            && turn.record.awaits_finish_call(&self.policy)
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
        if !turn.wants_round {
            return;
        }
        let schedule = self.schedule(&turn.record, facts);
        let options = RoundOptions {
            latch_check: schedule.latch_check(facts.latch.is_sealed),
            long_lived_before: schedule.long_lived_before(),
            list_limit: self.waiting.list_limit(self.census.round + 1),
            plain_only: self.policy.exempts_long_lived,
        };
        let mut requests = self.census.ask(facts, options);
        if turn.is_tick {
            self.ends.order(&self.policy, &self.census, &mut requests, turn);
        }
        requests.into_iter().for_each(|(queue, request)| turn.push(Effect::Ask(queue, request)));
    }

    fn set_tick(&mut self, turn: &mut Turn<'_, '_>) {
        let period = self.schedule(&turn.record, turn.facts).tick_period(turn.facts.now);
        if period != self.period {
            self.period = period;
            turn.push(Effect::Tick(period));
        }
    }
}

#[cfg(test)]
#[path = "protocol_tests.rs"]
mod tests;

#[cfg(test)]
#[cfg(not(target_arch = "wasm32"))]
#[path = "protocol_properties.rs"]
mod properties;
