//! The drain: begins and ends it, evaluates it, and makes its calls.

use strum::VariantArray as _;

use super::calls::{Call, CallKind};
use super::gate::Gate;
use super::latched_signal::SignalKind;
use super::machine::{Action, Record};
use super::observation::Reason;
use super::phase::Phase;
use super::policy::Policy;
use super::replies::{ADVICE, sentence};
use super::snapshot::Snapshot;
use super::step::{CallOutcome, Step};
use crate::census::{CountState, Survey, latch};
use crate::config::wire::BeginCall;
use crate::host::{Control, Level};

impl Gate {
    pub(super) fn begin_drain(&mut self, host: &impl Control) {
        let (now, begun) = (host.monotonic_time(), self.counted_streams_begun(host));
        let mut began = false;
        self.record.update(host, &mut |record| began = record.drain(&self.policy, now, begun));
        if began {
            let Policy { deadline, quiet, .. } = &self.policy;
            host.log(
                Level::Warning,
                &format!("the drain begins: deadline in {deadline} ms, quiet for {quiet} ms"),
            );
            host.record_metric(self.metrics.state, Phase::Draining as u64);
            // The quiet period begins now, not with the first tick.
            self.ask_counters(host);
            self.evaluate_and_answer(host);
        }
    }

    /// Cancels the drain: always the gate's, Envoy's if that is possible.
    pub(super) fn cancel_drain(&mut self, host: &impl Control, stream: u32) {
        let record = self.record.read(host);
        if record.phase == Phase::Serving {
            return self.respond_plainly(host, stream, 200, "there is no drain");
        }
        let has_begun = self.policy.begins() && record.began > 0 && record.begin != Step::Due;
        match self.policy.undo_path().filter(|_| has_begun) {
            Some(path) => {
                let target = self.policy.admin_call("POST", path);
                if !self.calls.send(host, Call::Cancel(stream), target) {
                    self.serve_again(host, stream, NOT_UNDONE);
                }
            }
            None if has_begun && self.policy.begin == BeginCall::DrainListeners => {
                self.serve_again(host, stream, STAYS_DRAINED)
            }
            None => self.serve_again(host, stream, ""),
        }
    }

    /// Envoy has answered the call that undoes the begin call.
    pub(super) fn on_cancel_response(
        &mut self,
        host: &impl Control,
        stream: u32,
        outcome: CallOutcome,
    ) {
        let but = if outcome == CallOutcome::Success { "" } else { NOT_UNDONE };
        self.serve_again(host, stream, but);
    }

    fn serve_again(&mut self, host: &impl Control, stream: u32, but: &str) {
        self.record.update(host, &mut |record| *record = Record::default());
        host.record_metric(self.metrics.state, Phase::Serving as u64);
        host.log(Level::Warning, &format!("the drain was taken back{but}"));
        self.ask_counters(host);
        let sealed = if latch::is_sealed(host) { STAYS_SEALED } else { "" };
        self.respond_plainly(host, stream, 200, &format!("the drain was taken back{but}{sealed}"));
    }

    /// Observes, updates the shared record, and does what follows.
    pub(super) fn evaluate(&mut self, host: &impl Control) -> Snapshot {
        let now = host.monotonic_time();
        let survey = self.survey(host);
        let record = self.record.read(host);
        self.query_envoy_stats(host, now, &record, &survey);
        self.query_app(host, now, &record);
        let observed = self.observe(host, now, &survey, self.app_state(&record));
        let (mut phase_before, mut after) = (Phase::Serving, Record::default());
        let (mut reason, mut action, mut logs) = (Reason::NotDraining, None, false);
        self.record.update(host, &mut |record| {
            phase_before = record.phase;
            (reason, action) = record.evaluate(&self.policy, now, &observed);
            logs = record.phase == Phase::Draining && now.saturating_sub(record.logged_at) >= 1_000;
            if logs {
                record.logged_at = now;
            }
            after.clone_from(record);
        });
        let stats = self.envoy_samples.stats(now);
        let snapshot = Snapshot { now, survey, stats, observed, record: after, reason };
        if logs {
            host.log(Level::Info, &format!("draining: {}", self.sentence(&snapshot)));
        }
        self.report_phase(host, phase_before, &snapshot);
        self.report_count_state(host, &snapshot);
        self.count_healing(&snapshot);
        if let Some(action) = action {
            self.perform(host, action, &snapshot.survey);
        }
        snapshot
    }

    pub(super) fn sentence(&self, snapshot: &Snapshot) -> String {
        sentence(&snapshot.reason, &snapshot.record, snapshot.now, self.policy.quiet)
    }

    fn report_phase(&self, host: &impl Control, phase_before: Phase, snapshot: &Snapshot) {
        let (record, now) = (&snapshot.record, snapshot.now);
        let late = record.late_streams(snapshot.observed.begun);
        host.record_metric(self.metrics.late, late);
        host.record_metric(self.metrics.seconds, record.duration(now) / 1_000);
        if phase_before == record.phase {
            return;
        }
        host.record_metric(self.metrics.state, record.phase as u64);
        if record.phase == Phase::Expired {
            host.increment_metric(self.metrics.expired, 1);
        }
        let line = match record.phase {
            Phase::Serving => {
                "the drain is over, and Envoy is still alive: the gate serves again".into()
            }
            Phase::Draining => format!("the drain goes on: {}", self.sentence(snapshot)),
            open => format!(
                "the drain ends: {open} after {} ms; {late} streams came late",
                record.duration(now)
            ),
        };
        host.log(Level::Warning, &line);
    }

    /// A count that is merely being asked for is not reported again.
    fn report_count_state(&mut self, host: &impl Control, snapshot: &Snapshot) {
        let count = snapshot.observed.count;
        let reported = self.reported_count_state;
        if reported == Some(count) || count == CountState::Asking && reported.is_some() {
            return;
        }
        self.reported_count_state = Some(count);
        for (other, gauge) in CountState::VARIANTS.iter().zip(&self.metrics.count) {
            host.record_metric(*gauge, (*other == count).into());
        }
        if count == CountState::Assumed {
            host.log(Level::Warning, &format!("the count is assumed: {ADVICE}"));
        }
    }

    fn perform(&mut self, host: &impl Control, action: Action, survey: &Survey) {
        match action {
            Action::Begin => {
                let target = self.policy.admin_call("POST", self.policy.begin_path());
                if !self.calls.send(host, Call::Begin, target) {
                    self.record_call_result(host, CallKind::Begin, CallOutcome::Failure);
                }
            }
            Action::Finish => {
                // If streams cannot read the latch's gauge, nothing can be sent safely, and the
                // hook must not wait for it.
                if self.close_latch(host, SignalKind::Finish).is_err() {
                    if self.latch.is_rejected() {
                        self.record_call_result(host, CallKind::Finish, CallOutcome::Failure);
                    } else {
                        self.record.update(host, &mut |record| record.finish.postpone());
                    }
                }
            }
            Action::Heal => self.heal(host, survey),
        }
    }

    pub(super) fn record_call_result(
        &self,
        host: &impl Control,
        kind: CallKind,
        outcome: CallOutcome,
    ) {
        self.record.update(host, &mut |record| {
            match kind {
                CallKind::Begin => &mut record.begin,
                CallKind::Finish => &mut record.finish,
            }
            .record(outcome);
        });
        if outcome == CallOutcome::Failure {
            let failed = match kind {
                CallKind::Begin => "the call that makes traffic leave failed",
                CallKind::Finish => "the last call failed",
            };
            host.log(Level::Warning, failed);
        }
    }
}

const NOT_UNDONE: &str =
    "; Envoy's admin interface did not answer, so health checks may go on failing";
const STAYS_DRAINED: &str = "; Envoy cannot undrain its listeners: it goes on telling clients to \
    leave until it is restarted (`fail_health_checks` can be undone)";
const STAYS_SEALED: &str = "; the signal to end was sent and cannot be taken back: new streams are \
    refused until the process ends";
