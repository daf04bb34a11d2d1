//! What the gate is asked, and what it answers.

use alloc::string::String;

use super::answers::{Outcome, ScopeStatus, Status, sentence};
use super::http::{Command, Wrong, command, same_secret};
use super::machine::{Phase, Record, Step};
use super::record::{read_record, update};
use super::root::Gate;
use super::waiting::{AT_ONCE, For, Waiter};
use crate::config::object::{Wire as _, Written as _};
use crate::config::wire::{Finish, Scope};
use crate::headers::Headers;
use crate::host::{Control, Level, Metric};
use crate::pieces::text;
use crate::rules::is_grpc;
use crate::words::lossy;

pub(crate) const SECRET_HEADER: &str = "x-laststream-secret";
/// How long a status waits for the counters.
const FRESH: u64 = 50;
/// Nobody is held for longer than the deadline and this: the last call may be under way, or the drain was taken back.
const AFTER_THE_DEADLINE: u64 = 5_000;
/// How long a signal waits for everybody to mind the gate.
const MINDING: u64 = 1_000;

impl Gate {
    /// A request is here. It is answered now or held.
    pub(crate) fn request(&mut self, host: &impl Control, stream: u32, map: &[u8]) {
        let headers = Headers::new(map);
        if is_grpc(headers) {
            return self.cut_grpc(host, stream);
        }
        let text = |name| lossy(headers.first(name).unwrap_or_default());
        match command(&text(":method"), &text(":path")) {
            Ok(asked) => {
                if let Some(why) = self.forbidden(host, &asked, headers) {
                    return self.outcome(host, stream, 403, why);
                }
                self.run(host, stream, asked);
                // Whoever paced the drain may be a worker whose VM has died.
                self.pace(host);
            }
            Err(Wrong::Path) => self.outcome(host, stream, 404, "there is no such path; see /status"),
            Err(Wrong::Query(why)) => self.outcome(host, stream, 400, why),
            Err(Wrong::Method(allow)) => {
                let body = self.body(host, "this path takes other methods", None);
                host.answer(stream, 405, &[("content-type", "application/json"), ("allow", allow)], &body);
            }
        }
    }

    /// To a gRPC request Envoy turns every answer of a filter into HTTP 200, and whoever polls for that would take a no for a yes.
    fn cut_grpc(&mut self, host: &impl Control, stream: u32) {
        if !core::mem::replace(&mut self.has_cut, true) {
            host.log(Level::Warning, "a gRPC request was cut: Envoy would answer 200, whatever the gate says");
        }
        host.cut(stream);
    }

    /// State changes need the secret, if there is one; and there must be one where others than this pod can connect. So does the listing:
    /// it tells paths.
    pub(super) fn forbidden(&self, host: &impl Control, asked: &Command, headers: Headers<'_>) -> Option<&'static str> {
        if matches!(asked, Command::Status | Command::Ready) {
            return None;
        }
        match &self.policy.secret {
            Some(secret) => {
                let given = headers.first(SECRET_HEADER).unwrap_or_default();
                (!same_secret(given, secret.as_bytes())).then_some("x-laststream-secret is missing or wrong")
            }
            None => {
                let here = host.property(b"destination\0address").unwrap_or_default();
                let local = here.starts_with(b"127.") || here.starts_with(b"[::1]");
                (!local).then_some("this listener is not on the loopback interface: this needs a secret, see `gate.secret`")
            }
        }
    }

    pub(super) fn run(&mut self, host: &impl Control, stream: u32, asked: Command) {
        let now = host.now();
        match asked {
            Command::Status => self.hold(host, stream, For::Counts, now + FRESH, ""),
            Command::Streams(length) => self.hold(host, stream, For::Listing(length), now + FRESH, ""),
            Command::Ready => self.tell_ready(host, stream),
            Command::PreStop(wait) => {
                self.drain(host);
                if wait == 0 || self.opens(&read_record(host)) {
                    self.tell_ready(host, stream);
                } else {
                    let longest = self.policy.deadline.saturating_add(AFTER_THE_DEADLINE);
                    self.hold(host, stream, For::Opening, now.saturating_add(wait.min(longest)), "");
                }
            }
            Command::Drain => {
                self.drain(host);
                self.outcome(host, stream, 202, "the drain has begun");
            }
            Command::Cancel => self.cancel(host, stream),
            Command::Force(why) => {
                let begun = self.begun(host);
                update(host, &mut |record| record.force(now, begun, &why));
                host.add(self.metrics.forced, 1);
                host.log(Level::Critical, &text!["the gate was forced open: ", why]);
                self.opened(host);
                self.outcome(host, stream, 200, "the gate is open");
            }
            Command::Pass { path, gracefully } if gracefully || read_record(host).phase.lets_go() => self.pass(host, stream, &path, false),
            Command::Pass { .. } if self.holding(host) > 0 => self.refuse(host, stream, "streams are in flight"),
            Command::Pass { path, .. } => self.hold(host, stream, For::Signal, now + MINDING, &path),
        }
    }

    pub(super) fn hold(&mut self, host: &impl Control, stream: u32, what: For, until: u64, path: &str) {
        // Who asks how things are may have the answers of a moment ago. A signal that waits makes everybody mind the gate, so it waits
        // before they are asked.
        let joins = what == For::Counts && self.census.has_just_asked(host.now());
        let round = self.census.round() + u64::from(!joins);
        self.waiting.hold(Waiter { stream, what, until, round, path: path.into() });
        if what != For::Opening && !joins {
            self.ask(host);
            self.seek_witness(host, host.now(), &self.census.result(host, &self.policy.scopes));
        }
    }

    /// The client of a held request has gone.
    pub(crate) fn gone(&mut self, stream: u32) {
        self.waiting.forget(stream);
    }

    /// Answers whoever can be answered now.
    pub(super) fn settle(&mut self, host: &impl Control) {
        let now = host.now();
        let record = read_record(host);
        let opens = self.opens(&record);
        let completed = self.census.completed(host).unwrap_or_default();
        let asking = self.asks_envoy();
        let ready = self.waiting.ready(|waiter| {
            now >= waiter.until
                || match waiter.what {
                    For::Counts | For::Listing(_) | For::Signal => completed >= waiter.round && !asking,
                    For::Opening => opens,
                }
        });
        if ready.len() == AT_ONCE
            && let Some(me) = self.census.me()
        {
            host.send(me, b"more wait");
        }
        let mut status = None;
        for waiter in &ready {
            match waiter.what {
                For::Counts => {
                    let body: &String = status.get_or_insert_with(|| self.status(host));
                    host.answer(waiter.stream, 200, &[("content-type", "application/json")], body);
                }
                For::Listing(length) => self.tell_streams(host, waiter, length),
                For::Opening => self.tell_ready(host, waiter.stream),
                For::Signal => self.signal(host, waiter.clone()),
            }
        }
    }

    /// Whether who waits may go. SIGTERM may follow at once, so the agent must know before.
    pub(super) fn opens(&self, record: &Record) -> bool {
        let agent_knows = self.policy.finish != Finish::DrainAgent || matches!(record.finish, Step::Done | Step::Failed);
        record.phase.is_open() && (record.phase != Phase::Drained || agent_knows)
    }

    pub(super) fn tell_ready(&self, host: &impl Control, stream: u32) {
        let record = read_record(host);
        let open = self.opens(&record);
        let why = self.sentence(host);
        self.outcome(host, stream, if open { 200 } else { 503 }, &why);
    }

    pub(super) fn sentence(&self, host: &impl Control) -> String {
        let now = host.now();
        let mut record = read_record(host);
        let counted = self.census.result(host, &self.policy.scopes);
        let sight = self.sight(host, now, &counted);
        let (reason, _) = record.look(&self.policy, now, &sight);
        sentence(&reason, &record, now, self.policy.quiet)
    }

    pub(super) fn outcome(&self, host: &impl Control, stream: u32, status: u16, why: &str) {
        let body = self.body(host, why, Some(self.holding(host)));
        let json = ("content-type", "application/json");
        match status {
            503 => host.answer(stream, status, &[json, ("retry-after", "1")], &body),
            _ => host.answer(stream, status, &[json], &body),
        }
    }

    pub(super) fn body(&self, host: &impl Control, why: &str, holding: Option<u64>) -> String {
        Outcome { state: read_record(host).phase, reason: why.into(), holding }.to_text()
    }

    fn status(&self, host: &impl Control) -> String {
        let now = host.now();
        let record = read_record(host);
        let counted = self.census.result(host, &self.policy.scopes);
        let sight = self.sight(host, now, &counted);
        let draining = record.phase != Phase::Serving;
        let scope = |(scope, metrics): &(Scope, [Metric; 3])| {
            let [in_flight, long_lived, begun] = metrics.map(|metric| host.value(metric).unwrap_or_default());
            ScopeStatus { scope: *scope, in_flight, long_lived, begun }
        };
        let status = Status {
            state: record.phase,
            reason: self.sentence(host),
            count: sight.trust,
            holding: sight.holding,
            scopes: self.metrics.scopes.iter().map(scope).collect(),
            counters: counted.members,
            lost_counters: counted.lost.len() as u64,
            envoy_active: self.witness.stats(now).and_then(|(_, stats)| stats.active),
            buffered_bytes: sight.buffered,
            quiet_ms: if record.quiet_since == 0 { 0 } else { now.saturating_sub(record.quiet_since) },
            quiet_needed_ms: self.policy.quiet,
            draining_ms: record.lasted(now),
            deadline_in_ms: (record.phase == Phase::Draining).then(|| record.deadline.saturating_sub(now)),
            late: record.late(self.begun(host)),
            begin: draining.then(|| record.begin.into()),
            finish: (draining && self.policy.finishes()).then(|| record.finish.into()),
            refused: host.value(self.metrics.refused).unwrap_or_default(),
            heals: record.heals,
            ..Status::unwritten()
        };
        status.to_text()
    }
}
