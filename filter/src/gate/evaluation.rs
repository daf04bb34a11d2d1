//! One evaluation: the gate sends the queries that are due, takes a snapshot, and acts on it.

use strum::VariantArray as _;

use super::calls::CallKind;
use super::calls::{Call, Target};
use super::gate::{Gate, respond_json};
use super::machine::{Action, Record};
use super::observation::{App, Reason};
use super::phase::Phase;
use super::query_pacing::QueryPacing;
use super::replies::{ADVICE, Outcome, Status, Streams, json, sentence};
use super::schedule::StatsQuery;
use super::signals::{ASKING, BUSY, SignalKind, SignalStep, step_of_waiter};
use super::snapshot::Snapshot;
use super::sources::needs_totals;
use super::stats::{self, Stats};
use super::step::CallOutcome;
use super::waiting::{MOST_ANSWERS, Needs, Waiter, WaitsFor};
use crate::census::{CountState, Survey, latch};
use crate::host::{Control, Level};

impl Gate {
    /// Evaluates, and answers the held requests that are ready. The gate calls this when something
    /// new is known, so that the consequences need not wait for the tick.
    pub(super) fn evaluate_and_answer(&mut self, host: &impl Control) {
        let snapshot = self.evaluate(host);
        self.confirm_latched_signal(host, &snapshot);
        self.answer_ready_waiters(host, &snapshot);
        self.set_tick_period(host);
    }

    /// Observes, updates the shared record, and performs the action that follows.
    pub(super) fn evaluate(&mut self, host: &impl Control) -> Snapshot {
        let now = host.monotonic_time();
        let survey = self.sources.survey(host, &self.policy);
        let before = self.record.read(host);
        self.query_envoy_stats(host, now, &before, &survey);
        self.query_app(host, now, &before);
        let observed = self.sources.observe(host, &self.policy, (now, &survey, &before));
        let (mut phase_before, mut record) = (Phase::Serving, Record::default());
        let (mut reason, mut action, mut logs) = (Reason::NotDraining, None, false);
        self.record.update(host, &mut |shared| {
            phase_before = shared.phase;
            (reason, action) = shared.evaluate(&self.policy, now, &observed);
            logs = shared.claim_log(now);
            record.clone_from(shared);
        });
        let samples = &self.sources.samples;
        let (stats, answered_query) = (samples.stats(now), samples.answered_query());
        let ends = self.end_status(host, &record, now);
        let notify = self.notify_step(host, &record);
        let snapshot =
            Snapshot { now, survey, stats, answered_query, observed, record, reason, notify, ends };
        if logs {
            host.log(Level::Info, &format!("draining: {}", sentence(&snapshot, self.policy.quiet)));
        }
        self.report(host, phase_before, &snapshot);
        self.healing.record(&snapshot.observed, now);
        if let Some(action) = action {
            self.perform(host, action, &snapshot.survey);
        }
        self.notify_app_once(host, &snapshot.record, now);
        snapshot
    }

    fn report(&mut self, host: &impl Control, phase_before: Phase, snapshot: &Snapshot) {
        self.report_phase(host, phase_before, snapshot);
        self.report_count_state(host, snapshot);
    }

    fn report_phase(&self, host: &impl Control, phase_before: Phase, snapshot: &Snapshot) {
        let (record, metrics) = (&snapshot.record, &self.sources.metrics);
        let late = record.late_streams(self.sources.counted_streams_begun(host));
        let lasted = record.duration(snapshot.now);
        host.record_metric(metrics.late, late);
        host.record_metric(metrics.seconds, lasted / 1_000);
        host.record_metric(metrics.holding, snapshot.observed.holding);
        if phase_before == record.phase {
            return;
        }
        host.record_metric(metrics.state, record.phase as u64);
        if record.phase == Phase::Expired {
            host.increment_metric(metrics.expired, 1);
        }
        let line = match record.phase {
            Phase::Serving => {
                "the drain is over, and Envoy is still alive: the gate serves again".into()
            }
            Phase::Draining => {
                format!("the drain goes on: {}", sentence(snapshot, self.policy.quiet))
            }
            open => {
                let ended = match self.ends.ended_in(host, record) {
                    0 => String::new(),
                    ended => format!("; the gate ended {ended} streams at most"),
                };
                format!("the drain ends: {open} after {lasted} ms; {late} streams came late{ended}")
            }
        };
        host.log(Level::Warning, &line);
    }

    /// Sets the gauges of the count's state. While the counters are being asked, a state that is
    /// shown stays. All workers share the gauges, so another worker may have reported since.
    fn report_count_state(&mut self, host: &impl Control, snapshot: &Snapshot) {
        let count = snapshot.observed.count;
        let gauges = || CountState::VARIANTS.iter().zip(&self.sources.metrics.count);
        let is_shown = |gauge| host.get_metric(gauge) == Some(1);
        let is_reported = match count {
            CountState::Asking => gauges().any(|(_, gauge)| is_shown(*gauge)),
            _ => gauges().any(|(other, gauge)| *other == count && is_shown(*gauge)),
        };
        if is_reported {
            return;
        }
        for (other, gauge) in gauges() {
            host.record_metric(*gauge, (*other == count).into());
        }
        if count == CountState::Assumed {
            host.log(Level::Warning, &format!("the count is assumed: {ADVICE}"));
        }
    }

    fn perform(&mut self, host: &impl Control, action: Action, survey: &Survey) {
        match action {
            Action::Begin => self.send_begin_call(host),
            Action::Finish if self.close_latch(host, SignalKind::Finish).is_ok() => {}
            // If streams cannot read the latch's gauge, nothing can be sent safely, and the hook
            // must not wait for it.
            Action::Finish if self.latch.is_rejected() => {
                self.record_call_result(host, CallKind::Finish, CallOutcome::Failure)
            }
            Action::Finish => self.postpone_finish(host),
            Action::Heal => self.sources.heal(host, &self.policy, survey),
        }
    }

    /// Queries Envoy's own count, if that is due.
    pub(super) fn query_envoy_stats(
        &mut self,
        host: &impl Control,
        now: u64,
        record: &Record,
        survey: &Survey,
    ) {
        let with_totals = needs_totals(survey.count_state);
        let is_due = || match self.schedule(record).stats_query(now, with_totals) {
            StatsQuery::Due => true,
            StatsQuery::DueIfNothingHolds => self.sources.holding(host, &self.policy) == 0,
            StatsQuery::NotDue => false,
        };
        if self.calls.contains(&Call::Stats) || !is_due() {
            return;
        }
        // The worker that can make the last call needs the next query for itself.
        let leaves_query = self.latched_signal.is_none()
            && self.schedule(record).awaits_finish_call()
            && QueryPacing::read(host).is_reserved(now);
        let path = if with_totals { stats::ALL } else { stats::GAUGES };
        let query = self.policy.stats_query(path);
        if leaves_query || !QueryPacing::begin(host, query.patience) {
            return;
        }
        let before = self.sources.before_query(host, &self.policy, now, with_totals);
        self.sources.samples.begin_query(before);
        if !self.calls.send(host, Call::Stats, query) {
            self.on_envoy_stats(host, None);
        }
    }

    /// Handles Envoy's answer, or its failure. If Envoy has requests, or its total was needed, the
    /// counters are asked again, because only they know which of Envoy's requests do not hold the
    /// drain.
    pub(super) fn on_envoy_stats(&mut self, host: &impl Control, stats: Option<Stats>) {
        QueryPacing::end(host);
        let round = self.sources.census.round() + 1;
        self.sources.samples.end_query(host.monotonic_time(), round, stats);
        let total = stats.and(self.sources.samples.needed_total());
        if let Some((at, total)) = total {
            self.sources.total.publish(host, at, total);
        }
        if total.is_some()
            || stats.is_some_and(|stats| stats.active.is_some_and(|active| active > 0))
        {
            self.ask_counters(host);
        }
    }

    /// Asks the app whether it is there, if that is due.
    fn query_app(&mut self, host: &impl Control, now: u64, record: &Record) {
        let Some(app) = &self.policy.app else { return };
        let is_due = self.schedule(record).is_app_query_due(now, self.sources.app_asked_at);
        if !is_due || self.calls.contains(&Call::App) {
            return;
        }
        self.sources.app_asked_at = now;
        let (cluster, path, patience) = (&app.cluster, &app.path, self.policy.patience);
        let target = Target { cluster, method: "GET", path, patience };
        if !self.calls.send(host, Call::App, target) {
            self.sources.app_reply = Some((now, App::Unreachable));
        }
    }

    /// Sends the signal behind the latch, if nothing is in flight. No stream can begin meanwhile.
    fn confirm_latched_signal(&mut self, host: &impl Control, snapshot: &Snapshot) {
        let Some(signal) = self.latched_signal.take_if(|signal| signal.is_ready(snapshot)) else {
            return;
        };
        let gate = self.sources.census.queue();
        let is_closed =
            latch::is_sealed(host) || gate.is_some_and(|gate| self.latch.is_closed_by(host, gate));
        let step = signal.step(snapshot, is_closed);
        if step != SignalStep::Send {
            self.open_latch(host);
        }
        match (signal.kind, step) {
            (SignalKind::Operator { stream, path, .. }, SignalStep::Send) => {
                self.send_signal(host, stream, &path, true)
            }
            (SignalKind::Finish, SignalStep::Send) => self.send_finish_call(host),
            (SignalKind::Finish, _) => self.postpone_finish(host),
            (SignalKind::Operator { stream, .. }, SignalStep::Refuse(why)) => {
                self.refuse_signal(host, snapshot, stream, why)
            }
            (SignalKind::Operator { stream, path, until }, _) => {
                let (waits_for, needs) = (WaitsFor::Signal, self.sources.next_answers());
                self.waiting.hold(Waiter { stream, waits_for, until, needs, path });
            }
        }
    }

    /// Answers each held request that can be answered now.
    fn answer_ready_waiters(&mut self, host: &impl Control, snapshot: &Snapshot) {
        let ready = self.waiting.take_ready(|waiter| snapshot.answers(waiter));
        if ready.len() == MOST_ANSWERS
            && let Some(queue) = self.sources.census.queue()
        {
            host.enqueue(queue, b"more wait");
        }
        let mut status = None;
        for waiter in ready {
            let stream = waiter.stream;
            match waiter.waits_for {
                WaitsFor::Counts => {
                    let details = || self.sources.details(host);
                    let body = status.get_or_insert_with(|| {
                        json(&Status::new(&self.policy, snapshot, details()))
                    });
                    respond_json(host, stream, 200, body);
                }
                WaitsFor::Metrics => {}
                WaitsFor::Listing(limit) => self.respond_streams(host, snapshot, &waiter, limit),
                WaitsFor::Ready | WaitsFor::Opening => {
                    self.respond_ready(host, stream, snapshot, snapshot.proves_open(waiter.needs))
                }
                WaitsFor::Signal => self.try_signal(host, snapshot, waiter),
            }
        }
    }

    fn respond_streams(
        &self,
        host: &impl Control,
        snapshot: &Snapshot,
        waiter: &Waiter,
        limit: usize,
    ) {
        let (listings, is_complete) = self.sources.census.listings(
            host,
            &self.policy.scopes,
            waiter.needs.round,
            self.policy.exempts_long_lived,
        );
        let streams = Streams::oldest(snapshot, &listings, is_complete, limit);
        respond_json(host, waiter.stream, 200, &json(&streams));
    }

    pub(super) fn respond_ready(
        &self,
        host: &impl Control,
        stream: u32,
        snapshot: &Snapshot,
        is_open: bool,
    ) {
        let status = if is_open { 200 } else { 503 };
        let reason = match snapshot.is_open() && !is_open {
            true => ASKING.into(),
            false => sentence(snapshot, self.policy.quiet),
        };
        let outcome = Outcome::new(snapshot, &reason);
        respond_json(host, stream, status, &json(&outcome));
    }

    fn try_signal(&mut self, host: &impl Control, snapshot: &Snapshot, waiter: Waiter) {
        match step_of_waiter(snapshot, &waiter, self.latched_signal.is_some()) {
            SignalStep::Send => self.send_signal(host, waiter.stream, &waiter.path, false),
            SignalStep::Hold => self.waiting.hold(waiter),
            SignalStep::AwaitNext => {
                let needs = self.sources.next_answers();
                self.waiting.hold(Waiter { needs, ..waiter })
            }
            SignalStep::Refuse(why) => self.refuse_signal(host, snapshot, waiter.stream, why),
            SignalStep::CloseLatch => {
                let (stream, until) = (waiter.stream, waiter.until);
                let kind = SignalKind::Operator { stream, path: waiter.path.clone(), until };
                match self.close_latch(host, kind) {
                    Ok(()) => {}
                    // Query 0 marks the signal as untried, so the next query is left to it.
                    Err(BUSY) if snapshot.now < until => {
                        let needs = Needs { query: 0, ..waiter.needs };
                        self.waiting.hold(Waiter { needs, ..waiter })
                    }
                    Err(why) => self.refuse_signal(host, snapshot, stream, why),
                }
            }
        }
    }
}
