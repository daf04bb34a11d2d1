//! The gate's answers to its clients, each from one snapshot.

use super::gate::Gate;
use super::observation::EnvoyCount;
use super::phase::Phase;
use super::replies::{ADVICE, Outcome, ScopeStatus, Status, json};
use super::snapshot::Snapshot;
use super::waiting::{MOST_ANSWERS, Waiter, WaitsFor};
use crate::census::latch;
use crate::config::wire::Scope;
use crate::host::{Control, Metric};

impl Gate {
    /// Answers each held request that can be answered now.
    pub(super) fn answer_ready_waiters(&mut self, host: &impl Control, snapshot: &Snapshot) {
        let samples = &self.envoy_samples;
        let ready = self.waiting.take_ready(|waiter| {
            let has_answers = || snapshot.has_answers(samples, waiter.needs);
            let is_open_anyway = snapshot.record.phase.is_unconditionally_open();
            snapshot.now >= waiter.until
                || match waiter.waits_for {
                    WaitsFor::Counts | WaitsFor::Listing(_) => has_answers(),
                    WaitsFor::Ready => !snapshot.may_open() || has_answers(),
                    WaitsFor::Opening => snapshot.is_open() && (is_open_anyway || has_answers()),
                    WaitsFor::Signal => is_open_anyway || has_answers(),
                }
        });
        if ready.len() == MOST_ANSWERS
            && let Some(queue) = self.census.queue()
        {
            host.enqueue(queue, b"more wait");
        }
        let mut status = None;
        for waiter in ready {
            self.answer(host, snapshot, waiter, &mut status);
        }
    }

    fn answer(
        &mut self,
        host: &impl Control,
        snapshot: &Snapshot,
        waiter: Waiter,
        status: &mut Option<String>,
    ) {
        match waiter.waits_for {
            WaitsFor::Counts => {
                let body = status.get_or_insert_with(|| self.status_body(host, snapshot));
                respond_json(host, waiter.stream, 200, body);
            }
            WaitsFor::Listing(limit) => {
                let body = json(&self.oldest_streams(host, snapshot, waiter.needs.round, limit));
                respond_json(host, waiter.stream, 200, &body);
            }
            WaitsFor::Ready | WaitsFor::Opening => {
                self.respond_ready(host, waiter.stream, snapshot)
            }
            WaitsFor::Signal => self.try_signal(host, snapshot, waiter),
        }
    }

    pub(super) fn respond_ready(&self, host: &impl Control, stream: u32, snapshot: &Snapshot) {
        let status = if snapshot.is_open() { 200 } else { 503 };
        self.respond(host, stream, status, snapshot, &self.sentence(snapshot));
    }

    /// Responds with the state and the counts of a snapshot.
    pub(super) fn respond(
        &self,
        host: &impl Control,
        stream: u32,
        status: u16,
        snapshot: &Snapshot,
        why: &str,
    ) {
        let outcome = Outcome {
            state: snapshot.record.phase,
            reason: why.into(),
            holding: Some(snapshot.observed.holding),
        };
        respond_json(host, stream, status, &json(&outcome));
    }

    /// The same if no evaluation was needed.
    pub(super) fn respond_plainly(&self, host: &impl Control, stream: u32, status: u16, why: &str) {
        let outcome = Outcome {
            state: self.record.read(host).phase,
            reason: why.into(),
            holding: Some(self.holding(host)),
        };
        respond_json(host, stream, status, &json(&outcome));
    }

    fn status_body(&self, host: &impl Control, snapshot: &Snapshot) -> String {
        let Snapshot { now, survey, stats, observed, record, .. } = snapshot;
        let is_draining = record.phase != Phase::Serving;
        let quiet_since = Some(record.quiet_since).filter(|since| *since > 0);
        let deadline = Some(record.deadline).filter(|_| record.phase.is_draining());
        json(&Status {
            state: record.phase,
            reason: self.sentence(snapshot),
            count: observed.count,
            advice: (observed.envoy == EnvoyCount::Absent).then(|| ADVICE.into()),
            holding: observed.holding,
            scopes: self.scope_statuses(host),
            counters: survey.counters,
            lost_counters: survey.lost.len() as u64,
            envoy_active: stats.and_then(|stats| stats.active),
            buffered_bytes: observed.buffered,
            quiet_ms: quiet_since.map_or(0, |since| now.saturating_sub(since)),
            quiet_needed_ms: self.policy.quiet,
            draining_ms: record.duration(*now),
            deadline_in_ms: deadline.map(|deadline| deadline.saturating_sub(*now)),
            late: record.late_streams(self.counted_streams_begun(host)),
            begin: is_draining.then(|| record.begin.into()),
            finish: (is_draining && self.policy.finishes()).then(|| record.finish.into()),
            sealed: latch::is_sealed(host).then_some(true),
            refused: host.get_metric(self.metrics.refused).unwrap_or_default(),
            heals: self.heals(host),
            version: env!("CARGO_PKG_VERSION"),
        })
    }

    fn scope_statuses(&self, host: &impl Control) -> Vec<ScopeStatus> {
        let status = |(scope, metrics): &(Scope, [Metric; 3])| {
            let [in_flight, long_lived, begun] =
                metrics.map(|metric| host.get_metric(metric).unwrap_or_default());
            ScopeStatus { scope: *scope, in_flight, long_lived, begun }
        };
        self.metrics.scopes.iter().map(status).collect()
    }
}

fn respond_json(host: &impl Control, stream: u32, status: u16, body: &str) {
    let json = ("content-type", "application/json");
    match status {
        503 => host.send_http_response(stream, status, &[json, ("retry-after", "1")], body),
        _ => host.send_http_response(stream, status, &[json], body),
    }
}
