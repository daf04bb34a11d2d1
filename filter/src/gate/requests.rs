//! What the gate is asked, and what it answers.

use super::access::{self, Surroundings};
use super::answers::{ADVICE, Outcome, ScopeStatus, Status, json, sentence};
use super::http::{Command, Wrong, command};
use super::latch;
use super::machine::{EnvoyCount, Phase};
use super::questions::Questions;
use super::root::Gate;
use super::signals::{IN_FLIGHT, refusal};
use super::snapshot::Snapshot;
use super::waiting::{AT_ONCE, For, Needs, Waiter};
use crate::config::wire::Scope;
use crate::headers::Headers;
use crate::host::{Control, Level, Metric};
use crate::rules::is_grpc;

pub(crate) const SECRET_HEADER: &str = "x-laststream-secret";
/// How long a status waits for the counters; where Envoy has to be asked, it waits for as long as
/// the answer whether the gate is open.
const FRESH: u64 = 50;
/// Nobody is held for longer than the deadline and this: the last call may be under way, or the
/// drain was taken back.
const AFTER_THE_DEADLINE: u64 = 5_000;
/// How long a signal waits for every counter to mind the gate.
const MINDING: u64 = 1_000;
/// How long the answer whether the gate is open waits for counts of its own; `pilot-agent wait` has
/// patience for 500 ms.
const READY: u64 = 400;
/// No drain begins then, so nobody shall believe that one did.
const ALREADY_OPEN: &str =
    "no drain begins: the one before opened the gate; DELETE /drain closes it";

impl Gate {
    /// A request is here. It is refused now, while its headers and its connection are at hand, or
    /// its command waits for the root.
    #[inline(never)] // not a part of what every stream passes through
    pub(crate) fn request(&mut self, host: &impl Control, stream: u32, map: &[u8]) {
        self.callers += 1;
        let headers = Headers::new(map);
        if is_grpc(headers) {
            return self.cut_grpc(host, stream);
        }
        let text = |name| String::from_utf8_lossy(headers.first(name).unwrap_or_default());
        let surroundings = Surroundings::read(host, &self.policy);
        let access = surroundings.access(&self.policy);
        if let Some(why) = access::foreign(headers, &access) {
            return host.answer(
                stream,
                403,
                &[("content-type", "application/json")],
                &access::refusal_body(why),
            );
        }
        match command(&text(":method"), &text(":path")) {
            Ok(asked) => {
                let path = headers.first(":path").unwrap_or_default();
                if let Some(why) = access::refusal(headers, path, &asked, &access) {
                    return host.answer(
                        stream,
                        403,
                        &[("content-type", "application/json")],
                        &access::refusal_body(why),
                    );
                }
                self.admit(host, stream, asked);
            }
            Err(Wrong::Path) => {
                self.respond_plainly(host, stream, 404, "there is no such path; see /status")
            }
            Err(Wrong::Query(why)) => self.respond_plainly(host, stream, 400, why),
            Err(Wrong::Method(allow)) => {
                let reason = "this path takes other methods".into();
                let body =
                    json(&Outcome { state: self.record.read(host).phase, reason, holding: None });
                host.answer(
                    stream,
                    405,
                    &[("content-type", "application/json"), ("allow", allow)],
                    &body,
                );
            }
        }
    }

    /// To a gRPC request Envoy turns every answer of a filter into HTTP 200, and whoever polls for
    /// that would take a no for a yes.
    fn cut_grpc(&mut self, host: &impl Control, stream: u32) {
        if !core::mem::replace(&mut self.has_cut, true) {
            host.log(
                Level::Warning,
                "a gRPC request was cut: Envoy would answer 200, whatever the gate says",
            );
        }
        host.cut(stream);
    }

    pub(super) fn run(&mut self, host: &impl Control, stream: u32, asked: Command) {
        let now = host.now();
        match asked {
            Command::Status => self.hold_for_counts(host, stream, For::Counts),
            Command::Streams(length) => self.hold_for_counts(host, stream, For::Listing(length)),
            Command::Ready => self.tell_or_hold(host, stream),
            Command::PreStop(0) => {
                self.drain(host);
                self.tell_or_hold(host, stream);
            }
            Command::PreStop(wait) => {
                self.drain(host);
                // While streams are in flight the tick asks for all who wait.
                let longest = self.policy.deadline.saturating_add(AFTER_THE_DEADLINE);
                self.hold_for_opening(stream, For::Opening, now.saturating_add(wait.min(longest)));
                if self.record.read(host).phase != Phase::Draining {
                    self.ask(host);
                    self.evaluate_and_answer(host);
                }
            }
            Command::Drain => {
                self.drain(host);
                let is_open = self.record.read(host).phase.lets_go();
                self.respond_plainly(
                    host,
                    stream,
                    202,
                    if is_open { ALREADY_OPEN } else { "the drain has begun" },
                );
            }
            Command::Cancel => self.cancel(host, stream),
            Command::Force(why) => {
                let begun = self.total_begun(host);
                self.record.update(host, &mut |record| record.force(now, begun, &why));
                host.add(self.metrics.forced, 1);
                host.set(self.metrics.state, Phase::Forced as u64);
                host.log(Level::Critical, &format!("the gate was forced open: {why}"));
                self.respond_plainly(host, stream, 200, "the gate is open");
            }
            Command::Pass { path, gracefully } => {
                let snapshot = self.evaluate(host);
                if gracefully || snapshot.record.phase.lets_go() {
                    self.pass(host, stream, &path, false);
                } else if snapshot.sight.holding > 0 && refusal(&snapshot) == Some(IN_FLIGHT) {
                    self.refuse(host, &snapshot, stream, IN_FLIGHT);
                } else {
                    // Envoy is asked once the latch is closed; a count of a moment ago is enough to
                    // try.
                    let needs = Needs { question: 0, ..self.next_answers() };
                    let until = now
                        .saturating_add(MINDING)
                        .saturating_add(Questions::read(host).longest_wait());
                    self.waiting.hold(Waiter { stream, what: For::Signal, until, needs, path });
                    // Asked after the signal has begun to wait: that makes every counter mind the
                    // gate.
                    self.ask(host);
                    self.evaluate_and_answer(host);
                }
            }
        }
    }

    /// Whether the gate is open can be told at once where it is closed for sure, and where nothing
    /// in flight matters any more.
    fn tell_or_hold(&mut self, host: &impl Control, stream: u32) {
        let snapshot = self.evaluate(host);
        if snapshot.may_open() && !snapshot.record.phase.lets_go() {
            self.hold_for_opening(stream, For::Ready, snapshot.now.saturating_add(READY));
            self.ask(host);
            self.evaluate_and_answer(host);
        } else {
            self.tell_ready(host, stream, &snapshot);
        }
    }

    /// Answers of a moment ago are good enough to say how things are, but for a zero.
    fn hold_for_counts(&mut self, host: &impl Control, stream: u32, what: For) {
        let now = host.now();
        let joins = what == For::Counts && self.census.has_just_asked(now);
        let asks_envoy = self.witness.is_new() || self.holding(host) == 0;
        let needs = Needs {
            round: self.census.round() + u64::from(!joins),
            question: if asks_envoy { self.witness.next() } else { 0 },
        };
        let until = now.saturating_add(if asks_envoy { READY } else { FRESH });
        self.waiting.hold(Waiter { stream, what, until, needs, path: String::new() });
        if !joins {
            self.ask(host);
        }
        let survey = self.survey(host);
        let record = self.record.read(host);
        self.query_envoy(host, now, &record, &survey);
    }

    /// What opens the gate must be true when that is said, so it takes answers that are asked for
    /// from now on.
    fn hold_for_opening(&mut self, stream: u32, what: For, until: u64) {
        let needs = self.next_answers();
        self.waiting.hold(Waiter { stream, what, until, needs, path: String::new() });
    }

    /// The client of a held request has gone.
    #[inline(never)]
    pub(crate) fn gone(&mut self, host: &impl Control, stream: u32) {
        self.callers = self.callers.saturating_sub(1);
        self.forget_command(stream);
        self.waiting.forget(stream);
        self.forget_passage(host, stream);
    }

    /// Answers each held request that can be answered now.
    pub(super) fn answer_ready_waiters(&mut self, host: &impl Control, snapshot: &Snapshot) {
        let witness = &self.witness;
        let ready = self.waiting.ready(|waiter| {
            let is_heard = || snapshot.has_heard(witness, waiter.needs);
            snapshot.now >= waiter.until
                || match waiter.what {
                    For::Counts | For::Listing(_) => is_heard(),
                    For::Ready => !snapshot.may_open() || is_heard(),
                    For::Opening => {
                        snapshot.is_open() && (snapshot.record.phase.lets_go() || is_heard())
                    }
                    For::Signal => snapshot.record.phase.lets_go() || is_heard(),
                }
        });
        if ready.len() == AT_ONCE
            && let Some(me) = self.census.me()
        {
            host.send(me, b"more wait");
        }
        let mut status = None;
        for waiter in ready {
            match waiter.what {
                For::Counts => {
                    let body: &String = status.get_or_insert_with(|| self.status(host, snapshot));
                    host.answer(waiter.stream, 200, &[("content-type", "application/json")], body);
                }
                For::Listing(length) => self.tell_streams(host, snapshot, &waiter, length),
                For::Ready | For::Opening => self.tell_ready(host, waiter.stream, snapshot),
                For::Signal => self.try_signal(host, snapshot, waiter),
            }
        }
    }

    fn tell_ready(&self, host: &impl Control, stream: u32, snapshot: &Snapshot) {
        let why = sentence(&snapshot.reason, &snapshot.record, snapshot.now, self.policy.quiet);
        self.respond(host, stream, if snapshot.is_open() { 200 } else { 503 }, snapshot, &why);
    }

    /// Answers with the state and the counts of that moment.
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
            holding: Some(snapshot.sight.holding),
        };
        respond_json(host, stream, status, &json(&outcome));
    }

    /// The same where no look was needed.
    pub(super) fn respond_plainly(&self, host: &impl Control, stream: u32, status: u16, why: &str) {
        let outcome = Outcome {
            state: self.record.read(host).phase,
            reason: why.into(),
            holding: Some(self.holding(host)),
        };
        respond_json(host, stream, status, &json(&outcome));
    }

    fn status(&self, host: &impl Control, snapshot: &Snapshot) -> String {
        let Snapshot { now, survey, stats, sight, record, reason } = snapshot;
        let draining = record.phase != Phase::Serving;
        let scope = |(scope, metrics): &(Scope, [Metric; 3])| {
            let [in_flight, long_lived, begun] =
                metrics.map(|metric| host.value(metric).unwrap_or_default());
            ScopeStatus { scope: *scope, in_flight, long_lived, begun }
        };
        json(&Status {
            state: record.phase,
            reason: sentence(reason, record, *now, self.policy.quiet),
            count: sight.trust,
            advice: (sight.envoy == EnvoyCount::Absent).then(|| ADVICE.into()),
            holding: sight.holding,
            scopes: self.metrics.scopes.iter().map(scope).collect(),
            counters: survey.members,
            lost_counters: survey.lost.len() as u64,
            envoy_active: stats.and_then(|stats| stats.active),
            buffered_bytes: sight.buffered,
            quiet_ms: if record.quiet_since == 0 {
                0
            } else {
                now.saturating_sub(record.quiet_since)
            },
            quiet_needed_ms: self.policy.quiet,
            draining_ms: record.lasted(*now),
            deadline_in_ms: record
                .phase
                .is_draining()
                .then(|| record.deadline.saturating_sub(*now)),
            late: record.late(self.total_begun(host)),
            begin: draining.then(|| record.begin.into()),
            finish: (draining && self.policy.finishes()).then(|| record.finish.into()),
            sealed: latch::is_sealed(host).then_some(true),
            refused: host.value(self.metrics.refused).unwrap_or_default(),
            heals: self.heals(host),
            version: env!("CARGO_PKG_VERSION"),
        })
    }
}

fn respond_json(host: &impl Control, stream: u32, status: u16, body: &str) {
    let json = ("content-type", "application/json");
    match status {
        503 => host.answer(stream, status, &[json, ("retry-after", "1")], body),
        _ => host.answer(stream, status, &[json], body),
    }
}
