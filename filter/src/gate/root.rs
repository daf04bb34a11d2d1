//! One worker's gate: what it is asked, what it sees, what it does. The record is shared with the other workers.

use super::answers::{Outcome, ScopeStatus, Status, sentence, step_name};
use super::census::{Census, Result as Counted};
use super::http::{Command, Wrong, command, same_secret};
use super::machine::{Act, Phase, Record, Sight, Step, Trust};
use super::policy::Policy;
use super::record;
use super::stats::{self, Stats};
use super::waiting::{For, Waiter, Waiting};
use crate::config::object::Wire as _;
use crate::config::wire::{Finish, Scope};
use crate::headers::Headers;
use crate::host::{Control, Kind, Level, Metric, change};
use crate::metrics;

const RECORD: &str = "laststream.gate";
const PASSING: &str = "laststream.passing";
pub(crate) const SECRET_HEADER: &str = "x-laststream-secret";

/// Between two looks; milliseconds.
const TICK: u32 = 100;
/// The same while somebody waits for an answer that takes no longer than the counters take.
const SHORT_TICK: u32 = 10;
/// How long a status waits for the counters.
const FRESH: u64 = 50;
/// How long a signal waits for everybody to mind the gate.
const MINDING: u64 = 1_000;
/// Envoy's own counts are asked for so often, and believed for so long.
const STATS_EVERY: u64 = 250;
const STATS_GOOD: u64 = 1_500;
/// A counter that came later than this after Envoy's start may have missed streams, until they are this old.
const START_TAKES: u64 = 3_000;
const LONGEST_STREAM: u64 = 60_000;
/// After so many failures there is no admin interface.
const MISSING_AFTER: u32 = 3;

/// A call that was made.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Call {
    Begin,
    Finish,
    Cancel(u32),
    Pass(u32),
    Stats,
    Info,
    App,
}

#[derive(Debug)]
struct Metrics {
    scopes: Vec<(Scope, [Metric; 3])>,
    closing: Metric,
    state: Metric,
    seconds: Metric,
    late: Metric,
    refused: Metric,
    heals: Metric,
    expired: Metric,
    forced: Metric,
}

#[derive(Debug)]
pub(crate) struct Gate {
    policy: Policy,
    metrics: Metrics,
    census: Census,
    waiting: Waiting,
    calls: Vec<(u32, Call)>,
    stats: Option<(u64, Stats)>,
    stats_asked: u64,
    stats_failed: u32,
    started: Option<u64>,
    app: Option<(u64, bool)>,
    app_asked: u64,
    period: u32,
}

impl Gate {
    /// # Errors
    /// Which metric Envoy does not define.
    pub(crate) fn new(host: &impl Control, policy: Policy) -> Result<Self, String> {
        let define = |kind: Kind, name: &str| host.metric(kind, name).ok_or_else(|| format!("Envoy does not define the metric `{name}`"));
        let counter = |name: &str| -> Result<Metric, String> {
            let metric = define(Kind::Counter, name)?;
            host.show(metric);
            Ok(metric)
        };
        let scope = |scope: &Scope| -> Result<(Scope, [Metric; 3]), String> {
            let in_flight = define(Kind::Gauge, &metrics::in_flight(*scope))?;
            let long_lived = define(Kind::Gauge, &metrics::long_lived(*scope))?;
            Ok((*scope, [in_flight, long_lived, define(Kind::Counter, &metrics::begun(*scope))?]))
        };
        let metrics = Metrics {
            scopes: policy.scopes.iter().map(scope).collect::<Result<_, _>>()?,
            closing: define(Kind::Gauge, metrics::CLOSING)?,
            state: define(Kind::Gauge, "laststream_gate_state")?,
            seconds: define(Kind::Gauge, "laststream_gate_drain_seconds")?,
            late: define(Kind::Gauge, "laststream_gate_late_streams")?,
            refused: counter("laststream_gate_refused_total")?,
            heals: counter("laststream_gate_heals_total")?,
            expired: counter("laststream_gate_expired_total")?,
            forced: counter("laststream_gate_forced_total")?,
        };
        let mut gate = Self {
            policy,
            metrics,
            census: Census::default(),
            waiting: Waiting::default(),
            calls: Vec::new(),
            stats: None,
            stats_asked: 0,
            stats_failed: 0,
            started: None,
            app: None,
            app_asked: 0,
            period: 0,
        };
        // A drain that began before this configuration goes on under it.
        let phase = read_record(host).phase;
        host.set(gate.metrics.state, phase_number(phase));
        gate.pace(host, phase);
        Ok(gate)
    }

    /// A request is here. It is answered now or held.
    pub(crate) fn request(&mut self, host: &impl Control, stream: u32, map: &[u8]) {
        let headers = Headers::new(map);
        let text = |name: &str| String::from_utf8_lossy(headers.first(name).unwrap_or_default()).into_owned();
        match command(&text(":method"), &text(":path")) {
            Ok(asked) => {
                if let Some(why) = self.forbidden(host, &asked, headers) {
                    return self.outcome(host, stream, 403, why);
                }
                self.run(host, stream, asked);
            }
            Err(Wrong::Path) => self.outcome(host, stream, 404, "there is no such path; see /status"),
            Err(Wrong::Query(why)) => self.outcome(host, stream, 400, why),
            Err(Wrong::Method(allow)) => {
                let body = self.body(host, "this path takes other methods", None);
                host.answer(stream, 405, &[("content-type", "application/json"), ("allow", allow)], &body);
            }
        }
    }

    /// State changes need the secret, if there is one; and there must be one where others than this pod can connect.
    fn forbidden(&self, host: &impl Control, asked: &Command, headers: Headers<'_>) -> Option<&'static str> {
        if matches!(asked, Command::Status | Command::Streams | Command::Ready) {
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
                (!local).then_some("this listener is not on the loopback interface: changes need a secret, see `gate.secret`")
            }
        }
    }

    fn run(&mut self, host: &impl Control, stream: u32, asked: Command) {
        let now = host.now();
        match asked {
            Command::Status | Command::Streams => self.hold(host, stream, For::Counts, now + FRESH, ""),
            Command::Ready => self.tell_ready(host, stream),
            Command::PreStop(wait) => {
                self.drain(host);
                if wait == 0 || read_record(host).phase.is_open() {
                    self.tell_ready(host, stream);
                } else {
                    self.hold(host, stream, For::Opening, now.saturating_add(wait), "");
                }
            }
            Command::Drain => {
                self.drain(host);
                self.outcome(host, stream, 202, "the drain has begun");
            }
            Command::Cancel => self.cancel(host, stream),
            Command::Force(why) => {
                update(host, |record| record.force(now, &why));
                host.add(self.metrics.forced, 1);
                host.log(Level::Critical, &["the gate was forced open: ", &why].concat());
                self.opened(host);
                self.outcome(host, stream, 200, "the gate is open");
            }
            Command::Pass(path) if path.contains("graceful") => self.pass(host, stream, &path),
            Command::Pass(path) => self.hold(host, stream, For::Signal, now + MINDING, &path),
        }
    }

    fn hold(&mut self, host: &impl Control, stream: u32, what: For, until: u64, path: &str) {
        self.waiting.hold(Waiter { stream, what, until, path: path.into() });
        if what != For::Opening {
            self.ask(host);
        }
        self.pace(host, read_record(host).phase);
    }

    /// The client of a held request has gone.
    pub(crate) fn gone(&mut self, stream: u32) {
        self.waiting.forget(stream);
    }

    // === the drain

    fn drain(&mut self, host: &impl Control) {
        let (now, begun) = (host.now(), self.begun(host));
        let began = update(host, |record| record.drain(&self.policy, now, begun));
        if began {
            host.log(
                Level::Warning,
                &format!("the drain begins: deadline in {} ms, quiet for {} ms", self.policy.deadline, self.policy.quiet),
            );
            host.set(self.metrics.state, phase_number(Phase::Draining));
            self.look(host);
        }
        self.pace(host, Phase::Draining);
    }

    fn cancel(&mut self, host: &impl Control, stream: u32) {
        let record = read_record(host);
        match (record.phase, record.begin, self.policy.undo_path()) {
            (Phase::Serving, ..) => self.outcome(host, stream, 200, "there is no drain"),
            (Phase::Draining, Step::Due, _) => self.serve_again(host, stream),
            (_, _, Some(path)) => match host.call(&self.policy.admin, "POST", path, self.policy.patience) {
                Some(call) => self.calls.push((call, Call::Cancel(stream))),
                None => self.outcome(host, stream, 409, "Envoy's admin interface cannot be reached"),
            },
            _ => self.outcome(
                host,
                stream,
                409,
                "drained listeners cannot be undrained; begin with `fail_health_checks` where this is wanted",
            ),
        }
    }

    fn serve_again(&mut self, host: &impl Control, stream: u32) {
        update(host, |record| *record = Record { heals: record.heals, ..Record::default() });
        host.set(self.metrics.state, phase_number(Phase::Serving));
        host.log(Level::Warning, "the drain was taken back");
        self.ask(host);
        self.outcome(host, stream, 200, "the drain was taken back");
    }

    /// A tick: look, act, answer.
    pub(crate) fn tick(&mut self, host: &impl Control) {
        if read_record(host).phase == Phase::Draining || !self.waiting.is_empty() {
            self.ask(host);
        }
        self.look(host);
        self.settle(host);
        self.pace(host, read_record(host).phase);
    }

    /// Answers of the counters are here.
    pub(crate) fn heard(&mut self, host: &impl Control, queue: u32) {
        if self.census.is_mine(queue) {
            self.census.hear(host);
            self.settle(host);
        }
    }

    fn ask(&mut self, host: &impl Control) {
        let guard = self.minds(host);
        self.census.ask(host, guard);
        self.census.hear(host);
    }

    /// Whether streams must mind the gate: it costs them a read each.
    fn minds(&self, host: &impl Control) -> bool {
        self.waiting.any(For::Signal) || !matches!(read_record(host).phase, Phase::Serving)
    }

    fn look(&mut self, host: &impl Control) {
        let now = host.now();
        let counted = self.census.result(host, &self.policy.scopes);
        self.seek_witness(host, now, &counted);
        let sight = self.sight(host, now, &counted);
        let before = read_record(host).phase;
        let (reason, act, speaks, phase, late) = update(host, |record| {
            let (reason, act) = record.look(&self.policy, now, &sight);
            let speaks = record.phase == Phase::Draining && now.saturating_sub(record.said) >= 1_000;
            if speaks {
                record.said = now;
            }
            (reason, act, speaks, record.phase, record.late(sight.begun))
        });
        if speaks {
            let sentence = sentence(&reason, &read_record(host), now, self.policy.quiet);
            host.log(Level::Info, &["draining: ", &sentence].concat());
        }
        if let Some(act) = act {
            self.act(host, act, &counted);
        }
        host.set(self.metrics.late, late);
        if before == Phase::Draining && phase.is_open() {
            if phase == Phase::Expired {
                host.add(self.metrics.expired, 1);
            }
            self.opened(host);
        }
    }

    fn opened(&self, host: &impl Control) {
        let record = read_record(host);
        let took = record.ended.saturating_sub(record.began);
        host.set(self.metrics.state, phase_number(record.phase));
        host.set(self.metrics.seconds, took / 1_000);
        let totals = format!("{} after {took} ms; {} streams came late", record.phase.name(), record.late(self.begun(host)));
        host.log(Level::Warning, &["the drain ends: ", &totals].concat());
    }

    fn act(&mut self, host: &impl Control, act: Act, counted: &Counted) {
        let patience = self.policy.patience;
        let call = match act {
            Act::Begin => host.call(&self.policy.admin, "POST", self.policy.begin_path(), patience).map(|call| (call, Call::Begin)),
            Act::Finish => match self.policy.finish {
                Finish::DrainAgent => host.call(&self.policy.agent, "POST", "/drain", patience),
                _ => host.call(&self.policy.admin, "POST", "/quitquitquit", patience),
            }
            .map(|call| (call, Call::Finish)),
            Act::Heal => return self.heal(host, counted),
        };
        match call {
            Some(call) => self.calls.push(call),
            None => self.stepped(host, act == Act::Begin, false),
        }
    }

    fn stepped(&self, host: &impl Control, begin: bool, well: bool) {
        update(host, |record| if begin { record.begin.answered(well) } else { record.finish.answered(well) });
        if !well {
            host.log(Level::Warning, if begin { "the call that makes traffic leave failed" } else { "the last call failed" });
        }
    }

    /// Nobody living has a stream and Envoy has no request: what the gauges still say are streams of the dead.
    fn heal(&mut self, host: &impl Control, counted: &Counted) {
        let mut leaked = 0;
        for (_, [in_flight, long_lived, _]) in &self.metrics.scopes {
            for (gauge, counts) in [(in_flight, true), (long_lived, false)] {
                let value = host.value(*gauge).and_then(|value| i64::try_from(value).ok()).unwrap_or_default();
                host.add(*gauge, -value);
                leaked += if counts { value } else { 0 };
            }
        }
        self.census.bury(host, &counted.lost);
        update(host, |record| record.heals += 1);
        host.add(self.metrics.heals, 1);
        host.log(Level::Warning, &format!("healed: {leaked} streams were counted by workers' VMs that have died; Envoy has none"));
    }

    // === what is seen

    fn begun(&self, host: &impl Control) -> u64 {
        self.metrics.scopes.iter().map(|(_, [_, _, begun])| host.value(*begun).unwrap_or_default()).sum()
    }

    /// In flight is read first, begun last; see `stream::Stream::count`. More than there can be is an error of accounting, not zero.
    fn holding(&self, host: &impl Control) -> u64 {
        let value = |metric: Metric| host.value(metric).unwrap_or(u64::MAX);
        let one = |[in_flight, long_lived, _]: &[Metric; 3]| {
            let all = value(*in_flight);
            if self.policy.exempts { all.saturating_sub(value(*long_lived)) } else { all }
        };
        self.metrics.scopes.iter().map(|(_, metrics)| one(metrics)).fold(0, u64::saturating_add)
    }

    fn sight(&self, host: &impl Control, now: u64, counted: &Counted) -> Sight {
        let draining = read_record(host).phase == Phase::Draining;
        let holding = self.holding(host);
        let begun = self.begun(host);
        let stats = self.stats.filter(|(at, _)| now.saturating_sub(*at) < STATS_GOOD).map(|(_, stats)| stats);
        let trust = if draining { self.trust(now, counted, holding) } else { counted.trust };
        let total = stats.and_then(|stats| stats.total).filter(|_| trust != Trust::Exact).unwrap_or_default();
        Sight {
            trust,
            holding,
            living: counted.living,
            begun: begun.saturating_add(total),
            active: stats.and_then(|stats| stats.active),
            buffered: stats.and_then(|stats| stats.buffered),
            app_is_there: self.app.is_none_or(|(_, there)| there),
        }
    }

    /// Exact counters may still have come too late for streams that were there before.
    fn trust(&self, now: u64, counted: &Counted, holding: u64) -> Trust {
        let age = now.saturating_sub(counted.since);
        if counted.trust != Trust::Exact || holding > 0 || age >= LONGEST_STREAM {
            return counted.trust;
        }
        match self.started {
            Some(started) if counted.since <= started + START_TAKES => Trust::Exact,
            None if self.stats_failed < MISSING_AFTER => Trust::Asking,
            _ => Trust::Partial,
        }
    }

    /// Asks Envoy what it counts, when that matters; and the app whether it is there.
    fn seek_witness(&mut self, host: &impl Control, now: u64, counted: &Counted) {
        if read_record(host).phase != Phase::Draining {
            return;
        }
        let matters = counted.trust != Trust::Exact || self.holding(host) == 0;
        let under_way = |call: &Call| self.calls.iter().any(|(_, other)| other == call);
        if matters && !under_way(&Call::Stats) && !under_way(&Call::Info) && now.saturating_sub(self.stats_asked) >= STATS_EVERY {
            self.stats_asked = now;
            let (path, call) = if self.started.is_none() { ("/server_info", Call::Info) } else { (stats::PATH, Call::Stats) };
            match host.call(&self.policy.admin, "GET", path, self.policy.patience) {
                Some(number) => self.calls.push((number, call)),
                None => self.stats_failed += 1,
            }
        }
        if let Some(app) = &self.policy.app
            && !self.calls.iter().any(|(_, other)| *other == Call::App)
            && now.saturating_sub(self.app_asked) >= STATS_EVERY
        {
            self.app_asked = now;
            if let Some(number) = host.call(&app.cluster, "GET", &app.path, self.policy.patience) {
                self.calls.push((number, Call::App));
            }
        }
    }

    /// An answer to a call is here.
    pub(crate) fn called(&mut self, host: &impl Control, number: u32, length: usize) -> bool {
        let Some(index) = self.calls.iter().position(|(other, _)| *other == number) else { return false };
        let (_, call) = self.calls.swap_remove(index);
        let status = host.called_status();
        let well = status == Some(200);
        let body = || String::from_utf8_lossy(&host.called_body(length)).into_owned();
        match call {
            Call::Begin => self.stepped(host, true, well),
            Call::Finish => self.finished(host, status),
            Call::Cancel(stream) if well => self.serve_again(host, stream),
            Call::Cancel(stream) => self.outcome(host, stream, 409, "Envoy's admin interface did not take the drain back"),
            Call::Pass(stream) => self.passed(host, stream, status, &body()),
            Call::Stats if well => self.stats = Some((host.now(), Stats::read(&body(), &self.policy.ignore))),
            Call::Info if well && self.info(host.now(), &body()) => {}
            Call::Stats | Call::Info => self.stats_failed += 1,
            Call::App => {
                let gone = status.is_none() || (status == Some(503) && body().starts_with("upstream connect error"));
                self.app = Some((host.now(), !gone));
            }
        }
        true
    }

    fn info(&mut self, now: u64, body: &str) -> bool {
        let uptime = body.split("\"uptime_current_epoch\":").nth(1).and_then(|rest| rest.split('"').nth(1));
        let seconds = uptime.and_then(|uptime| uptime.strip_suffix('s')).and_then(|seconds| seconds.parse::<u64>().ok());
        self.started = seconds.map(|seconds| now.saturating_sub(seconds * 1_000));
        self.started.is_some()
    }

    // === signals

    /// Passes at once; the answer is Envoy's.
    fn pass(&mut self, host: &impl Control, stream: u32, path: &str) {
        match host.call(&self.policy.admin, "POST", path, self.policy.patience) {
            Some(call) => self.calls.push((call, Call::Pass(stream))),
            None => self.passed(host, stream, None, ""),
        }
    }

    /// Closes the gate to new streams, looks again, and passes the signal only if nothing is in flight. A stream counts itself before it
    /// looks at the gate, and the gate closes before it looks at the count: one of the two sees the other.
    fn signal(&mut self, host: &impl Control, waiter: &Waiter) {
        let now = host.now();
        let phase = read_record(host).phase;
        if matches!(phase, Phase::Expired | Phase::Forced) {
            return self.pass(host, waiter.stream, &waiter.path);
        }
        let trust = self.trust_of_signal(host, phase);
        if let Err(why) = trust {
            return self.refuse(host, waiter.stream, why);
        }
        let until = now + self.policy.patience;
        let mine = change(host, PASSING, |text| {
            let taken = text.and_then(|text| std::str::from_utf8(text).ok()?.parse::<u64>().ok()).is_some_and(|until| until > now);
            (!taken).then(|| until.to_string().into_bytes())
        });
        host.set(self.metrics.closing, until);
        if !mine || self.holding(host) > 0 {
            self.reopen(host);
            return self.refuse(host, waiter.stream, "streams are in flight");
        }
        self.pass(host, waiter.stream, &waiter.path);
    }

    fn trust_of_signal(&self, host: &impl Control, phase: Phase) -> Result<(), &'static str> {
        let counted = self.census.result(host, &self.policy.scopes);
        match counted.trust {
            _ if phase == Phase::Drained => Ok(()),
            Trust::Exact => Ok(()),
            Trust::Unknown => Err("nobody counts streams here"),
            Trust::Leaking => Err("a worker's counter has died"),
            Trust::Partial | Trust::Asking => Err("not all who count streams have answered"),
        }
    }

    fn reopen(&self, host: &impl Control) {
        host.set(self.metrics.closing, 0);
        change(host, PASSING, |_| Some(b"0".to_vec()));
    }

    fn refuse(&mut self, host: &impl Control, stream: u32, why: &str) {
        host.add(self.metrics.refused, 1);
        self.outcome(host, stream, 503, why);
    }

    fn passed(&mut self, host: &impl Control, stream: u32, status: Option<u16>, body: &str) {
        self.reopen(host);
        match status {
            Some(status) => host.answer(stream, status, &[("content-type", "text/plain")], body),
            None => self.outcome(host, stream, 502, "Envoy's admin interface did not answer"),
        }
    }

    fn finished(&self, host: &impl Control, status: Option<u16>) {
        self.stepped(host, false, status == Some(200));
    }

    // === answers

    /// Answers whoever can be answered now.
    fn settle(&mut self, host: &impl Control) {
        let now = host.now();
        let record = read_record(host);
        let opens = record.phase.is_open() && (record.phase != Phase::Drained || self.may_leave(&record));
        let counts = self.census.is_complete(host, self.minds(host));
        let ready = self.waiting.ready(|waiter| {
            now >= waiter.until
                || match waiter.what {
                    For::Counts | For::Signal => counts,
                    For::Opening => opens,
                }
        });
        for waiter in ready {
            match waiter.what {
                For::Counts => self.tell_status(host, waiter.stream),
                For::Opening => self.tell_ready(host, waiter.stream),
                For::Signal => self.signal(host, &waiter),
            }
        }
    }

    /// SIGTERM may follow at once, so the agent must know before.
    fn may_leave(&self, record: &Record) -> bool {
        self.policy.finish != Finish::DrainAgent || matches!(record.finish, Step::Done | Step::Failed)
    }

    fn tell_ready(&self, host: &impl Control, stream: u32) {
        let record = read_record(host);
        let open = record.phase.is_open() && (record.phase != Phase::Drained || self.may_leave(&record));
        let why = self.sentence(host);
        self.outcome(host, stream, if open { 200 } else { 503 }, &why);
    }

    fn sentence(&self, host: &impl Control) -> String {
        let now = host.now();
        let mut record = read_record(host);
        let counted = self.census.result(host, &self.policy.scopes);
        let sight = self.sight(host, now, &counted);
        let (reason, _) = record.look(&self.policy, now, &sight);
        sentence(&reason, &record, now, self.policy.quiet)
    }

    fn outcome(&self, host: &impl Control, stream: u32, status: u16, why: &str) {
        let body = self.body(host, why, Some(self.holding(host)));
        let json = ("content-type", "application/json");
        match status {
            503 => host.answer(stream, status, &[json, ("retry-after", "1")], &body),
            _ => host.answer(stream, status, &[json], &body),
        }
    }

    fn body(&self, host: &impl Control, why: &str, holding: Option<u64>) -> String {
        let state = read_record(host).phase.name().into();
        Outcome { state, reason: why.into(), holding }.write().to_string()
    }

    fn tell_status(&self, host: &impl Control, stream: u32) {
        let now = host.now();
        let record = read_record(host);
        let counted = self.census.result(host, &self.policy.scopes);
        let sight = self.sight(host, now, &counted);
        let draining = record.phase != Phase::Serving;
        let scope = |(scope, metrics): &(Scope, [Metric; 3])| {
            let [in_flight, long_lived, begun] = metrics.map(|metric| host.value(metric).unwrap_or_default());
            ScopeStatus { scope: scope.name().into(), in_flight, long_lived, begun }
        };
        let since = |from: u64, to: u64| if from == 0 { 0 } else { to.saturating_sub(from) };
        let status = Status {
            state: record.phase.name().into(),
            reason: self.sentence(host),
            count: sight.trust.name().into(),
            holding: sight.holding,
            scopes: self.metrics.scopes.iter().map(scope).collect(),
            counters: counted.members,
            lost_counters: counted.lost.len() as u64,
            envoy_active: sight.active,
            buffered_bytes: sight.buffered,
            quiet_ms: since(record.quiet_since, now),
            quiet_needed_ms: self.policy.quiet,
            draining_ms: since(record.began, if record.ended == 0 { now } else { record.ended }),
            deadline_in_ms: (record.phase == Phase::Draining).then(|| record.deadline.saturating_sub(now)),
            late: record.late(self.begun(host)),
            begin: if draining { step_name(record.begin).into() } else { String::new() },
            finish: if draining { step_name(record.finish).into() } else { String::new() },
            refused: host.value(self.metrics.refused).unwrap_or_default(),
            heals: record.heals,
            ..Status::unwritten()
        };
        host.answer(stream, 200, &[("content-type", "application/json")], &status.write().to_string());
    }

    /// Ticks only as long as there is something to do.
    fn pace(&mut self, host: &impl Control, phase: Phase) {
        let finishing = phase == Phase::Drained && self.policy.finishes() && !matches!(read_record(host).finish, Step::Done | Step::Failed);
        let period = if self.waiting.any(For::Counts) || self.waiting.any(For::Signal) {
            SHORT_TICK
        } else if phase == Phase::Draining || finishing || !self.waiting.is_empty() {
            TICK
        } else {
            0
        };
        if period != self.period {
            self.period = period;
            host.tick_every(period);
        }
    }
}

fn phase_number(phase: Phase) -> u64 {
    Phase::ALL.iter().position(|other| *other == phase).unwrap_or_default() as u64
}

fn read_record(host: &impl Control) -> Record {
    host.shared(RECORD).and_then(|(text, _)| record::read(&text)).unwrap_or_default()
}

/// Changes the record, also if another worker was quicker: then the change is made again, on what the other left.
fn update<T>(host: &impl Control, mut work: impl FnMut(&mut Record) -> T) -> T {
    let mut result = None;
    change(host, RECORD, |text| {
        let before = text.and_then(record::read).unwrap_or_default();
        let mut after = before.clone();
        result = Some(work(&mut after));
        (after != before || text.is_none()).then(|| record::write(&after).into_bytes())
    });
    result.unwrap_or_else(|| work(&mut Record::default()))
}
