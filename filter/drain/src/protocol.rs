//! The protocol of the drain, and the one place to read it: an event of one worker and the facts of
//! that moment go in, the new shared value and the effects come out. Nothing here calls Envoy.
//!
//! | question | answer |
//! |---|---|
//! | When does a 200 leave? | [`Worker::answer_waiting`]: both counts were zero at the end of the |
//! | | quiet period, by answers newer than the request ([`View::proves_open`]) |
//! | When does a signal pass? | [`Worker::confirm_signal`]: behind the closed latch, both counts |
//! | | were asked for again and are zero |
//! | Who closes the latch? | [`Worker::close_latch`], for one signal at a time |
//! | What ends a drain? | `Record::evaluate`: zero that lasts, the deadline, a force, a cancel |
//! | Who asks and ticks? | the gate that leads ([`Shared::lead`]), and each that holds a request |
//!
//! How new an answer must be has four words:
//!
//! - **newer** than a request ([`Needs`]): a round of the counters, and a query of Envoy, that
//!   began after it;
//! - **known until** a moment: every worker had replied since, and then Envoy was asked. A worker
//!   that stands still may have ended a stream whose last bytes no sum shows yet;
//! - **valid**: Envoy's last answer, for six times as long as it took, because the next one may not
//!   come sooner;
//! - **late**, and after ten seconds **dead**: a counter that does not reply. A late one owns its
//!   streams.
//!
//! | which answer | needs |
//! |---|---|
//! | 200 | zero known until the end of the quiet period; both counts newer than the request; |
//! | | Envoy's valid; nothing of a counter that is dead |
//! | a signal | zero by both counts, newer than the closed latch, the counters' first; |
//! | | no late counter |
//! | the quiet period | begins when the counts were read; what is awaited changes nothing |
//! | a heal | two valid answers of Envoy without a request in between; replies newer than the |
//! | | last one; no late counter |
//! | a subtraction | replies newer than Envoy's valid answer, of streams that are older |
//! | a status | counters newer than the request, and Envoy if they are zero, as long as the |
//! | | client waits; then what there is, with the word `asking` or `leaking`, and what is late |

use std::sync::Arc;

use crate::counts::{
    BeforeQuery, Census, EnvoySamples, Facts, Ignorable, Reply, Request, Sources, Stats, Survey,
    needs_totals, stats_path,
};
use crate::requests::words::{NOT_ALL, refusal_in_words, sentence};
use crate::requests::{
    Answer, Call, Effect, Effects, EndStatus, Event, GateMetric, HeldSignal, LatchedSignal, Level,
    Listings, Needs, Origin, Refusal, Schedule, Shown, SignalStep, StatsQuery, Status, View,
    Waiter, Waiting, WaitsFor, step_of_held,
};
use crate::state::timing::{EVALUATION_SLACK, LATCHED_FOR, REPLY_TIMEOUT};
use crate::state::{
    Action, CallEnd, CountState, DrainPolicy, Millis, Moment, Phase, Shared, Step, StreamNumber,
};
use crate::steps::{
    AppQuery, Apply, Callback, EndOrders, LeakWatch, end_orders, leaks, notify, report,
};

/// The gate of one worker.
#[derive(Debug, Clone)]
pub struct Worker {
    policy: Arc<DrainPolicy>,
    census: Census,
    samples: EnvoySamples,
    waiting: Waiting,
    latched: Option<LatchedSignal>,
    app: AppQuery,
    ends: EndOrders,
    leaks: LeakWatch,
    /// The tick period; none if this gate has nothing to do.
    period: Option<Millis>,
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
    pub fn new(policy: Arc<DrainPolicy>) -> Self {
        Self {
            policy,
            census: Census::default(),
            samples: EnvoySamples::default(),
            waiting: Waiting::default(),
            latched: None,
            app: AppQuery::default(),
            ends: EndOrders::default(),
            leaks: LeakWatch::default(),
            period: None,
        }
    }

    /// Receives the counters' replies, each perhaps with a listing, and returns whether they make
    /// an [`Event::Message`]: no other counter that may be alive is left to reply.
    pub fn receive(&mut self, now: Moment, replies: Vec<(Reply, Option<String>)>) -> bool {
        self.census.receive(now, replies)
    }

    /// Handles one event. The shell calls this once in each callback.
    pub fn on(&mut self, event: Event, facts: &Facts) -> Effects {
        let mut callback = Callback::new(facts);
        let view = match event {
            Event::StreamGone(stream) => {
                self.forget(stream, &mut callback);
                None
            }
            Event::Deleted { ends_envoy } => {
                callback.shared.pacing.drop_query_of(facts.queue);
                if ends_envoy {
                    callback.seal();
                    self.ask_counters(&mut callback);
                } else {
                    callback.push(Effect::OpenLatch);
                }
                None
            }
            Event::Configured => {
                callback.show_phase();
                callback.push(Effect::Tick(self.policy.serving_tick()));
                self.set_tick(&mut callback);
                None
            }
            event => self.decide(event, &mut callback),
        };
        callback.into_effects(view)
    }

    /// One evaluation, and all that follows from it; none while the gate only watches the agent.
    fn decide(&mut self, event: Event, callback: &mut Callback<'_>) -> Option<View> {
        // A gate that has nothing to do asks nothing, even if a late reply arrives.
        let is_routine = matches!(event, Event::Message | Event::Tick);
        let is_watch = event.is_watch();
        self.change_index(callback);
        self.begin_tick(&event, callback);
        self.hear_of_routes(&event, callback);
        self.apply_to(callback).event(event);
        let is_serving = callback.shared.record.phase == Phase::Serving;
        if is_watch && is_serving && !self.schedule(callback).asks_on_ticks() {
            self.set_tick(callback);
            return None;
        }
        self.follow_or_lead(callback);
        let (view, action) = self.evaluate(callback);
        self.confirm_signal(&view, callback);
        self.perform(action, &view, callback);
        notify::call_when_due(&self.policy, callback);
        self.answer_waiting(&view, callback);
        if self.period.is_some() || !is_routine || self.waiting.any() {
            self.query(&view, callback);
            self.ask_counters(callback);
        }
        self.set_tick(callback);
        Some(view)
    }

    fn change_index(&self, callback: &mut Callback<'_>) {
        let queues = self.census.to_revive(callback.facts);
        if !queues.is_empty() {
            callback.push(Effect::Revive(queues));
        }
        let queues = self.census.to_remove(callback.facts);
        if !queues.is_empty() {
            callback.push(Effect::Forget(queues));
        }
    }

    /// On a tick, the counters are asked if this gate needs them, and the latch stays closed. A
    /// gate that serves evaluates for its metrics at intervals: one worker for all, which tick a
    /// little apart.
    fn begin_tick(&mut self, event: &Event, callback: &mut Callback<'_>) {
        if *event != Event::Tick {
            return;
        }
        callback.is_tick = true;
        callback.wants_round = self.period.is_some() && self.schedule(callback).asks_on_ticks();
        if callback.facts.latch.is_held {
            callback.push(Effect::ExtendLatch);
        }
        self.apply_to(callback).ask_agent();
        self.apply_to(callback).open_routes();
        let Some(every) = self.policy.evaluate_every.filter(|_| self.period.is_none()) else {
            return;
        };
        let now = callback.now();
        let is_due = |last: Moment| now - last + EVALUATION_SLACK >= every;
        if callback.shared.evaluated_at.is_none_or(is_due) {
            callback.shared.evaluated_at = Some(now);
            self.apply_to(callback).hold_metrics();
        }
    }

    fn apply_to<'w, 't, 'f>(&'w mut self, callback: &'t mut Callback<'f>) -> Apply<'w, 't, 'f> {
        let Self { policy, census, samples, waiting, app, .. } = self;
        Apply { policy, census, samples, waiting, app, callback }
    }

    /// During a drain one gate asks for all, and another goes on if it is silent.
    fn follow_or_lead(&self, callback: &mut Callback<'_>) {
        if callback.shared.record.phase == Phase::Serving {
            callback.shared.lead = None;
        } else {
            callback.shared.follow_or_lead(callback.facts.queue, callback.now());
        }
    }

    /// Forgets a request that was answered, or whose client has gone.
    fn forget(&mut self, stream: StreamNumber, callback: &mut Callback<'_>) {
        self.waiting.forget(stream);
        if self.latched.take_if(|signal| signal.is_of_stream(stream)).is_some() {
            callback.push(Effect::OpenLatch);
        }
    }

    /// Observes, and updates the record.
    fn evaluate(&mut self, callback: &mut Callback<'_>) -> (View, Option<Action>) {
        let facts = callback.facts;
        let survey = Survey::new(&self.census, &self.policy, facts, self.samples.round());
        let (policy, samples) = (&*self.policy, &self.samples);
        let sources = Sources { policy, facts, survey: &survey, samples };
        callback.shared.sums_lack_streams |= samples.lacks_streams(sources.ignorable());
        let observed = sources.observe(&callback.shared);
        let phase_before = callback.shared.record.phase;
        let (reason, action) = callback.record().evaluate(policy, facts.now, &observed);
        let leads = callback.shared.is_led_by(facts.queue, facts.now);
        let logs = leads && callback.record().claim_log(facts.now);
        let shared = &callback.shared;
        let notifies = policy.notify_patience.is_some() && shared.record.phase != Phase::Serving;
        let view = View {
            now: facts.now,
            stats: samples.stats(facts.now),
            answered_query: policy.has_admin().then(|| samples.answered_query()),
            fault: samples.fault,
            observed,
            record: shared.record.clone(),
            reason,
            notify: notifies.then_some(shared.notify),
            agent: policy.watches_agent.then(|| shared.agent.state()),
            routes_have_failed: policy.by_envoy && shared.routes.has_failed,
            ends: self.end_status(shared, facts),
            survey,
        };
        if logs {
            callback.log(Level::Info, format!("draining: {}", sentence(&view, policy)));
        }
        report::report(policy, phase_before, &view, callback);
        self.leaks.look(&view.observed, !self.waiting.signals.is_empty(), facts.now);
        (view, action)
    }

    fn end_status(&self, shared: &Shared, facts: &Facts) -> Option<EndStatus> {
        let window = end_orders::window(&self.policy, shared)?;
        let survey = self.census.end_survey(facts, &self.policy.scopes);
        let streams = (survey.answered > 0).then_some(survey.endable);
        Some(EndStatus::new(self.policy.end.kinds, streams, window, facts.now))
    }

    fn perform(&mut self, action: Option<Action>, view: &View, callback: &mut Callback<'_>) {
        match action {
            Some(Action::Begin) => callback.call(Call::Begin),
            Some(Action::Finish) if self.may_finish(callback) => {
                // If streams cannot read the latch's gauge, nothing can be sent safely, and the
                // hook must not wait for it.
                if self.close_latch(Origin::Finish, callback) == Err(Refusal::LatchUnseen) {
                    callback.record().finish = Step::Failed;
                }
            }
            Some(Action::Finish) | None => {}
            Some(Action::Heal) => leaks::heal(&self.samples, &view.survey, callback),
        }
    }

    /// Whether the last call is this gate's, and Istio's agent does not forbid it.
    fn may_finish(&self, callback: &Callback<'_>) -> bool {
        let (facts, shared) = (callback.facts, &callback.shared);
        shared.is_led_by(facts.queue, facts.now) && self.agent_permits_end(callback)
    }

    /// Whether nobody listens on the agent's port, if the gate starts with its stop.
    fn agent_permits_end(&self, callback: &Callback<'_>) -> bool {
        !self.policy.watches_agent || callback.shared.agent.permits_end(callback.now())
    }

    /// Closes the latch, which refuses new streams, and asks for both counts again. A stream is
    /// counted before it checks the latch, and the gate closes the latch before it reads the count,
    /// so one of the two sees the other.
    fn close_latch(&mut self, origin: Origin, callback: &mut Callback<'_>) -> Result<(), Refusal> {
        let (latch, pacing, now) = (callback.facts.latch, callback.shared.pacing, callback.now());
        if latch.is_rejected {
            return Err(Refusal::LatchUnseen);
        }
        if callback.facts.queue.is_none() {
            return Err(Refusal::Asking);
        }
        // New streams are refused from here on until Envoy has answered, so the query must begin at
        // once.
        let can_query = !self.policy.has_admin() || pacing.is_allowed(now);
        // It may be closed for a signal of this gate that is on its way.
        let is_in_use = !latch.is_sealed && (latch.is_taken || latch.is_held);
        if self.latched.is_some() || !can_query || is_in_use {
            return Err(Refusal::Busy);
        }
        let tells = self.policy.by_envoy && !latch.is_sealed;
        if tells && !callback.shared.routes.refuse() {
            return Err(Refusal::Busy);
        }
        if !latch.is_sealed {
            callback.push(Effect::CloseLatch);
        }
        if tells {
            callback.call(Call::Routes { refuse: true, told: now });
        }
        let shown = if tells { Shown::Awaited(now) } else { Shown::Yes };
        let until =
            self.latched_until(callback) + if tells { self.policy.patience } else { Millis(0) };
        let needs = Needs::next(&self.census, &self.samples);
        self.latched = Some(LatchedSignal { origin, needs, until, shown });
        callback.wants_round = true;
        Ok(())
    }

    /// How long a signal waits behind the latch for the counts.
    fn latched_until(&self, callback: &Callback<'_>) -> Moment {
        let took = callback.shared.pacing.last_took();
        callback.now() + (took * LATCHED_FOR).max(REPLY_TIMEOUT)
    }

    /// Once Envoy has answered that its routes refuse new requests, both counts are asked for. A
    /// worker that replies after that has the new runtime.
    fn hear_of_routes(&mut self, event: &Event, callback: &mut Callback<'_>) {
        let Event::CallEnded(Call::Routes { refuse: true, told }, ended) = event else { return };
        let is_last = matches!(ended.end, CallEnd::Answered(_))
            && callback.shared.routes.refusal_has_arrived();
        let (needs, until) =
            (Needs::next(&self.census, &self.samples), self.latched_until(callback));
        let signal = self.latched.as_mut().filter(|signal| signal.shown == Shown::Awaited(*told));
        let Some(signal) = signal else { return };
        (signal.needs, signal.until) = (needs, until);
        match ended.end {
            end if end.is_success() && is_last => signal.shown = Shown::Yes,
            end @ CallEnd::Answered(_) if !end.is_success() => signal.shown = Shown::No,
            _ => signal.until = callback.now(),
        }
        callback.wants_round = true;
    }

    /// Sends the signal behind the latch, if nothing is in flight. No stream can begin meanwhile.
    fn confirm_signal(&mut self, view: &View, callback: &mut Callback<'_>) {
        let latch = callback.facts.latch;
        let Some(latched) = self.latched.take_if(|signal| signal.is_ready(view, &latch)) else {
            return;
        };
        let step = latched.step(view, &latch);
        match (latched.origin, step) {
            (Origin::Operator(HeldSignal { stream, signal, .. }), SignalStep::Send) => {
                return callback.call(Call::Signal { stream, signal, is_latched: true });
            }
            // Only this record can be the one that is stored: a cancel in between is seen.
            (Origin::Finish, SignalStep::Send) if self.agent_permits_end(callback) => {
                let patience = self.policy.patience;
                if callback.record().finish.send(patience, view.now) {
                    return callback.call(Call::Finish);
                }
            }
            (Origin::Finish, SignalStep::Refuse(_)) => callback.record().finish = Step::Failed,
            (Origin::Operator(held), SignalStep::Refuse(why)) => {
                self.refuse_signal(held.stream, why, view, callback)
            }
            (Origin::Operator(held), _) => self.try_later(held),
            (Origin::Finish, _) => {}
        }
        callback.push(Effect::OpenLatch);
    }

    /// Holds a signal until the next answers.
    fn try_later(&mut self, held: HeldSignal) {
        let needs = Needs::next(&self.census, &self.samples);
        self.waiting.signals.push(HeldSignal { needs, ..held });
    }

    fn try_signal(&mut self, view: &View, held: HeldSignal, callback: &mut Callback<'_>) {
        match step_of_held(view, &held, self.latched.is_some()) {
            SignalStep::Send => {
                let HeldSignal { stream, signal, .. } = held;
                callback.call(Call::Signal { stream, signal, is_latched: false })
            }
            SignalStep::Hold => self.waiting.signals.push(held),
            SignalStep::AwaitNext => self.try_later(held),
            SignalStep::Refuse(why) => self.refuse_signal(held.stream, why, view, callback),
            SignalStep::CloseLatch => {
                match self.close_latch(Origin::Operator(held.clone()), callback) {
                    Ok(()) => {}
                    // Untried, so the next query is left to it.
                    Err(Refusal::Busy) if view.now < held.until => {
                        let needs = Needs { query: None, ..held.needs };
                        self.waiting.signals.push(HeldSignal { needs, ..held })
                    }
                    Err(why) => self.refuse_signal(held.stream, why, view, callback),
                }
            }
        }
    }

    fn refuse_signal(
        &mut self,
        stream: StreamNumber,
        why: Refusal,
        view: &View,
        callback: &mut Callback<'_>,
    ) {
        callback.push(Effect::Increment(GateMetric::Refused));
        // A leak would refuse signals for ever.
        if why == Refusal::InFlight {
            self.leaks.suspect(&view.observed, view.now);
        }
        callback.outcome(stream, 503, refusal_in_words(why, view, &self.policy));
    }

    /// Answers each held request that can be answered now, at most 64 in one callback.
    fn answer_waiting(&mut self, view: &View, callback: &mut Callback<'_>) {
        self.waiting.refresh_metrics(view.now, |needs| view.has_answers(needs));
        let proven_until = self.waiting.proven_until(|needs| view.has_answers(needs));
        if let Some(asked_at) = proven_until.filter(|_| view.is_drained()) {
            callback.record().prove(asked_at);
        }
        let (answers, decides) = (|waiter: &_| view.answers(waiter), |held: &_| view.decides(held));
        let (waiters, signals) = self.waiting.take_ready(callback.answers_left(), answers, decides);
        waiters.into_iter().for_each(|waiter| self.answer(waiter, view, callback));
        signals.into_iter().for_each(|held| self.try_signal(view, held, callback));
        if callback.answers_left() == 0 {
            callback.push(Effect::Wake);
        }
        if !self.waiting.needs_listing() {
            self.census.forget_listings();
        }
    }

    fn answer(&self, waiter: Waiter, view: &View, callback: &mut Callback<'_>) {
        let Waiter { stream, needs, .. } = waiter;
        match waiter.waits_for {
            WaitsFor::Counts => {
                let status = Box::new(Status::new(&self.policy, view, callback.facts));
                callback.answer(stream, Answer::Status(status));
            }
            WaitsFor::Listing(limit) => {
                let listings = self.listings(view, needs.round, limit, callback.facts);
                callback.answer(stream, Answer::Streams(listings));
            }
            WaitsFor::Ready | WaitsFor::Opening => {
                let is_open = view.proves_open(needs);
                let reason = match view.is_open() && !is_open {
                    true => NOT_ALL.into(),
                    false => sentence(view, &self.policy),
                };
                callback.outcome(stream, if is_open { 200 } else { 503 }, reason);
            }
        }
    }

    fn listings(&self, view: &View, round: u64, limit: usize, facts: &Facts) -> Listings {
        let (scopes, plain_only) = (&self.policy.scopes, self.policy.exempts_long_lived);
        let (listings, is_listed) = self.census.listings(facts, scopes, round, plain_only);
        let is_counted = matches!(view.observed.count, CountState::Exact | CountState::Assumed);
        Listings {
            now: view.now,
            state: view.record.phase,
            holding: view.observed.holding,
            is_complete: is_listed && is_counted,
            limit,
            listings,
            clusters: None,
        }
    }

    fn schedule<'s>(&'s self, callback: &'s Callback<'_>) -> Schedule<'s> {
        let facts = callback.facts;
        Schedule {
            policy: &self.policy,
            record: &callback.shared.record,
            samples: &self.samples,
            waiting: &self.waiting,
            latched: self.latched.as_ref().map(|signal| signal.needs),
            is_latch_held: facts.latch.is_held,
            is_healing: self.leaks.is_healing(facts.now),
            leads: callback.shared.is_led_by(facts.queue, facts.now),
            may_finish: self.agent_permits_end(callback),
            opens_routes: self.policy.by_envoy && callback.shared.routes.may_refuse(),
            doubts_agent: self.policy.watches_agent && callback.shared.agent.is_doubtful(),
        }
    }

    /// Queries Envoy's own count and the app, if that is due.
    fn query(&mut self, view: &View, callback: &mut Callback<'_>) {
        let (survey, now) = (&view.survey, view.now);
        let with_totals = needs_totals(&self.policy, survey.count_state);
        let schedule = self.schedule(callback);
        // No counter can show whether a connection began in between.
        let needs_all = with_totals || self.policy.counts_tcp;
        let is_due = self.policy.has_admin()
            && match schedule.stats_query(now, survey, needs_all) {
                StatsQuery::Due => true,
                StatsQuery::DueIfNothingHolds => view.observed.holding == 0,
                StatsQuery::NotDue => false,
            };
        let asks_app = self.policy.waits_for_app
            && !self.app.is_running
            && schedule.is_app_query_due(now, self.app.asked_at);
        if is_due {
            self.query_envoy(survey, with_totals, callback);
        }
        if asks_app {
            self.app.ask(now);
            callback.call(Call::App);
        }
    }

    fn query_envoy(&mut self, survey: &Survey, with_totals: bool, callback: &mut Callback<'_>) {
        let (facts, at) = (callback.facts, callback.now());
        let Some(queue) = facts.queue else { return };
        if !callback.shared.pacing.begin(at, self.policy.stats_patience(), queue) {
            return;
        }
        let (in_flight, begun) = (survey.ignorable, facts.counts.ever_begun);
        let unwritten = self.unwritten(with_totals, &callback.shared);
        let query = self.samples.begin_query(BeforeQuery {
            at,
            alive_until: survey.alive_until,
            ignorable: Ignorable { in_flight, begun, is_complete: false },
            gauges: facts.counts.gauges().collect(),
            heals: facts.tally.heals,
            with_totals,
            unwritten,
        });
        let path = stats_path(&self.policy, with_totals, unwritten.is_some());
        callback.call(Call::Stats { query, path });
    }

    /// What Envoy may leave out of its answer in a drain, after one whole answer. Statistics of
    /// tunnels begin to exist with the first connection.
    fn unwritten(&self, with_totals: bool, shared: &Shared) -> Option<Stats> {
        let drains = shared.record.phase != Phase::Serving && self.policy.tunnels.is_empty();
        drains.then(|| self.samples.unwritten(shared.record.began, with_totals)).flatten()
    }

    /// Asks the counters, if somebody waits for their replies. On a tick the requests carry the
    /// order to end streams.
    fn ask_counters(&mut self, callback: &mut Callback<'_>) {
        let facts = callback.facts;
        if !callback.wants_round {
            return;
        }
        let schedule = self.schedule(callback);
        let request = Request {
            latch_check: schedule.latch_check(facts.latch.is_sealed),
            long_lived_before: schedule.long_lived_before(),
            list_limit: self.waiting.list_limit(self.census.round + 1),
            plain_only: self.policy.exempts_long_lived,
            ..Request::default()
        };
        let mut requests = self.census.ask(facts, request);
        if callback.is_tick {
            self.ends.order(&self.policy, &self.census, &mut requests, callback);
        }
        requests
            .into_iter()
            .for_each(|(queue, request)| callback.push(Effect::Ask(queue, request)));
    }

    fn set_tick(&mut self, callback: &mut Callback<'_>) {
        let period = self.schedule(callback).tick_period(callback.now());
        if period != self.period {
            self.period = period;
            callback.push(Effect::Tick(period.or(self.policy.serving_tick())));
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
