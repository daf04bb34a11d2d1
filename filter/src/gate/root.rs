//! One worker's gate: what it is asked, what it sees, what it does. The record is shared with the other workers.

use super::answers::{Outcome, ScopeStatus, Status, sentence, step_name};
use super::census::{Census, Result as Counted};
use super::http::{Command, Wrong, command, same_secret};
use super::latch::Latch;
use super::machine::{Act, Phase, Record, Sight, Step, Trust};
use super::policy::Policy;
use super::record;
use super::stats::{self, Stats};
use super::waiting::{For, Waiter, Waiting};
use super::witness::{Before, Witness};
use crate::config::object::Wire as _;
use crate::config::wire::{Finish, Scope};
use crate::headers::Headers;
use crate::host::{Control, Kind, Level, Metric, change};
use crate::metrics;

const RECORD: &str = "laststream.gate";
pub(crate) const SECRET_HEADER: &str = "x-laststream-secret";

/// Between two looks; milliseconds.
const TICK: u32 = 100;
/// The same while somebody waits for an answer that takes no longer than the counters take.
const SHORT_TICK: u32 = 10;
/// How long a status waits for the counters.
const FRESH: u64 = 50;
/// How long a signal waits for everybody to mind the gate.
const MINDING: u64 = 1_000;
/// Envoy's own counts, and the app, are asked for so often.
const STATS_EVERY: u64 = 100;
const OLDER: &str = "streams may be older than the counter";
/// Who has counted for so long has missed no stream that is still there; where Envoy can be asked, it is asked before.
const LONGEST_STREAM: u64 = 60_000;

/// A call that was made.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Call {
    Begin,
    Finish,
    Cancel(u32),
    /// For that stream; whether the latch is closed for it.
    Pass(u32, bool),
    Stats,
    App,
}

#[derive(Debug)]
struct Metrics {
    scopes: Vec<(Scope, [Metric; 4])>,
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
    root: u32,
    policy: Policy,
    metrics: Metrics,
    census: Census,
    waiting: Waiting,
    latch: Latch,
    calls: Vec<(u32, Call)>,
    witness: Witness,
    stats_asked: u64,
    /// How often a leaked count had been put right then.
    heals_before: u64,
    /// The time since when all count, of which Envoy has shown that it left no stream behind.
    cleared: Option<u64>,
    app: Option<(u64, bool)>,
    app_asked: u64,
    period: u32,
}

impl Gate {
    /// # Errors
    /// Which metric Envoy does not define.
    pub(crate) fn new(host: &impl Control, root: u32, policy: Policy) -> Result<Self, String> {
        let define = |kind: Kind, name: &str| host.metric(kind, name).ok_or_else(|| format!("Envoy does not define the metric `{name}`"));
        let counter = |name: &str| -> Result<Metric, String> {
            let metric = define(Kind::Counter, name)?;
            host.show(metric);
            Ok(metric)
        };
        let scope = |scope: &Scope| -> Result<(Scope, [Metric; 4]), String> {
            let in_flight = define(Kind::Gauge, &metrics::in_flight(*scope))?;
            let long_lived = define(Kind::Gauge, &metrics::long_lived(*scope))?;
            let begun = define(Kind::Counter, &metrics::begun(*scope))?;
            Ok((*scope, [in_flight, long_lived, begun, define(Kind::Counter, &metrics::excluded(*scope))?]))
        };
        let metrics = Metrics {
            scopes: policy.scopes.iter().map(scope).collect::<Result<_, _>>()?,
            state: define(Kind::Gauge, "laststream_gate_state")?,
            seconds: define(Kind::Gauge, "laststream_gate_drain_seconds")?,
            late: define(Kind::Gauge, "laststream_gate_late_streams")?,
            refused: counter("laststream_gate_refused_total")?,
            heals: counter("laststream_gate_heals_total")?,
            expired: counter("laststream_gate_expired_total")?,
            forced: counter("laststream_gate_forced_total")?,
        };
        let latch = Latch::new(define(Kind::Gauge, metrics::CLOSING)?);
        let mut gate = Self {
            root,
            policy,
            metrics,
            census: Census::default(),
            waiting: Waiting::default(),
            latch,
            calls: Vec::new(),
            witness: Witness::default(),
            stats_asked: 0,
            heals_before: 0,
            cleared: None,
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
                if wait == 0 || self.opens(&read_record(host)) {
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
            Command::Pass { path, gracefully } if gracefully || read_record(host).phase.lets_go() => self.pass(host, stream, &path, false),
            Command::Pass { .. } if self.holding(host) > 0 => self.refuse(host, stream, "streams are in flight"),
            Command::Pass { path, .. } => self.hold(host, stream, For::Signal, now + MINDING, &path),
        }
    }

    fn hold(&mut self, host: &impl Control, stream: u32, what: For, until: u64, path: &str) {
        // A signal that waits makes everybody mind the gate, so it waits before they are asked.
        let round = self.census.round() + 1;
        self.waiting.hold(Waiter { stream, what, until, round, path: path.into() });
        if what != For::Opening {
            self.ask(host);
            self.seek_witness(host, host.now(), &self.census.result(host, &self.policy.scopes));
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
            _ if !self.policy.begins() => self.serve_again(host, stream),
            (_, _, Some(path)) => match self.call(host, &self.policy.admin, "POST", path) {
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
        if self.period > 0 {
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
            self.look_again(host);
        }
    }

    /// Something new is known: what follows need not wait for the tick.
    fn look_again(&mut self, host: &impl Control) {
        if read_record(host).phase == Phase::Draining {
            self.look(host);
        }
        self.settle(host);
    }

    fn ask(&mut self, host: &impl Control) {
        let guard = self.minds(host);
        self.census.ask(host, guard);
        self.census.hear(host);
    }

    /// Whether streams must mind the gate: it costs them a read each.
    fn minds(&self, host: &impl Control) -> bool {
        self.waiting.any(For::Signal) || self.latch.is_mine() || !matches!(read_record(host).phase, Phase::Serving)
    }

    fn look(&mut self, host: &impl Control) {
        let now = host.now();
        let counted = self.census.result(host, &self.policy.scopes);
        self.seek_witness(host, now, &counted);
        self.seek_app(host, now);
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
        let call = match act {
            Act::Begin => self.call(host, &self.policy.admin, "POST", self.policy.begin_path()).map(|call| (call, Call::Begin)),
            Act::Finish if self.policy.finish == Finish::DrainAgent => {
                self.call(host, &self.policy.agent, "POST", "/drain").map(|call| (call, Call::Finish))
            }
            Act::Finish if self.nothing_can_begin(host) => {
                self.call(host, &self.policy.admin, "POST", "/quitquitquit").map(|call| (call, Call::Finish))
            }
            // A stream came late; it is waited for, too.
            Act::Finish => return update(host, |record| record.finish = Step::Due),
            Act::Heal => return self.heal(host, counted),
        };
        match call {
            Some(call) => self.calls.push(call),
            None if act == Act::Finish => self.finished(host, None),
            None => self.stepped(host, true, false),
        }
    }

    fn stepped(&self, host: &impl Control, begin: bool, well: bool) {
        update(host, |record| if begin { record.begin.answered(well) } else { record.finish.answered(well) });
        if !well {
            host.log(Level::Warning, if begin { "the call that makes traffic leave failed" } else { "the last call failed" });
        }
    }

    /// Nobody living has a stream and Envoy has no request: what the gauges said then are streams of the dead. Exactly that is taken off,
    /// not what they say now, and by one worker only: a stream that has begun since is not among them.
    fn heal(&mut self, host: &impl Control, counted: &Counted) {
        let Some(leaked) = self.witness.leaked(host.now()) else { return };
        let gauges = || self.metrics.scopes.iter().flat_map(|(_, [in_flight, long_lived, ..])| [*in_flight, *long_lived]);
        let still = gauges().zip(leaked).all(|(gauge, leaked)| host.value(gauge).is_some_and(|value| value >= *leaked));
        let streams: u64 = leaked.iter().step_by(2).sum();
        if streams > 0 {
            let heals = self.heals_before;
            let mine = |record: &mut Record| {
                let mine = record.heals == heals;
                record.heals += u64::from(mine);
                mine
            };
            if !still || !update(host, mine) {
                return;
            }
            for (gauge, leaked) in gauges().zip(leaked) {
                host.add(gauge, i64::try_from(*leaked).unwrap_or_default().wrapping_neg());
            }
            host.add(self.metrics.heals, 1);
            host.log(Level::Warning, &format!("healed: {streams} streams were counted by workers' VMs that have died; Envoy has none"));
        }
        self.census.bury(host, &counted.replaced);
    }

    // === what is seen

    fn begun(&self, host: &impl Control) -> u64 {
        self.metrics.scopes.iter().map(|(_, [_, _, begun, _])| host.value(*begun).unwrap_or_default()).sum()
    }

    /// In flight is read first, begun last; see `stream::Stream::count`. More than there can be is an error of accounting, not zero.
    fn holding(&self, host: &impl Control) -> u64 {
        let value = |metric: Metric| host.value(metric).unwrap_or(u64::MAX);
        let one = |[in_flight, long_lived, ..]: &[Metric; 4]| {
            let all = value(*in_flight);
            if self.policy.exempts { all.saturating_sub(value(*long_lived)) } else { all }
        };
        self.metrics.scopes.iter().map(|(_, metrics)| one(metrics)).fold(0, u64::saturating_add)
    }

    fn sight(&self, host: &impl Control, now: u64, counted: &Counted) -> Sight {
        let holding = self.holding(host);
        let begun = self.begun(host);
        let stats = self.witness.stats(now);
        let active = self.witness.active(now, self.moved(host), self.idle(counted));
        let trust = self.trust(now, counted, holding, active);
        let total = stats.and_then(|(_, stats)| stats.total).filter(|_| trust != Trust::Exact).unwrap_or_default();
        Sight {
            trust,
            seen: stats.map_or(counted.seen, |(at, _)| at.min(counted.seen)),
            holding,
            living: counted.living,
            begun: begun.saturating_add(total),
            active,
            buffered: stats.and_then(|(_, stats)| stats.buffered),
            app_is_there: self.app.is_none_or(|(_, there)| there),
        }
    }

    /// Streams ever begun, counted or not.
    fn moved(&self, host: &impl Control) -> u64 {
        let excluded = |(_, [.., excluded]): &(Scope, [Metric; 4])| host.value(*excluded).unwrap_or_default();
        self.metrics.scopes.iter().map(excluded).fold(self.begun(host), u64::saturating_add)
    }

    /// Streams in flight that need not be waited for.
    fn idle(&self, counted: &Counted) -> u64 {
        counted.excluded + if self.policy.exempts { counted.long } else { 0 }
    }

    /// Counters that all answer may have come too late for streams that were there before, or stand in listeners that were replaced by
    /// others without them. When there is that doubt, Envoy must show that it has no stream that they do not know.
    fn trust(&self, now: u64, counted: &Counted, holding: u64, active: Option<u64>) -> Trust {
        if counted.trust != Trust::Exact || holding > 0 {
            return counted.trust;
        }
        let young = now.saturating_sub(counted.since) < LONGEST_STREAM && self.cleared != Some(counted.since);
        let doubt = match self.witness.stats(now) {
            None if !self.witness.is_missing() => return Trust::Asking,
            None => young,
            Some((_, stats)) => {
                // One for each worker and the main thread; a VM that never came to enter itself may be dead.
                let each = stats.workers.unwrap_or(0) + 1;
                let missing = counted.members < each.saturating_mul(self.policy.scopes.len() as u64);
                young || missing || stats.draining.map_or(active.is_some(), |draining| draining > 0)
            }
        };
        if doubt && active != Some(0) { Trust::Partial } else { Trust::Exact }
    }

    /// Asks Envoy what it counts, when that matters.
    fn seek_witness(&mut self, host: &impl Control, now: u64, counted: &Counted) {
        let wanted = read_record(host).phase == Phase::Draining || self.waiting.any(For::Counts) || self.waiting.any(For::Signal);
        let matters = wanted && (counted.trust != Trust::Exact || self.holding(host) == 0);
        if !matters || self.asks_envoy() || now.saturating_sub(self.stats_asked) < STATS_EVERY {
            return;
        }
        self.stats_asked = now;
        self.heals_before = read_record(host).heals;
        let gauges = self.metrics.scopes.iter().flat_map(|(_, [in_flight, long_lived, ..])| [in_flight, long_lived]);
        let gauges = gauges.map(|gauge| host.value(*gauge).unwrap_or_default()).collect();
        self.witness.ask(Before { at: now, moved: self.moved(host), idle: self.idle(counted), gauges });
        match self.call(host, &self.policy.admin, "GET", stats::PATH) {
            Some(number) => self.calls.push((number, Call::Stats)),
            None => self.witness.answered(None),
        }
    }

    fn asks_envoy(&self) -> bool {
        self.calls.iter().any(|(_, call)| *call == Call::Stats)
    }

    /// What Envoy counts is here.
    fn testified(&mut self, host: &impl Control, stats: Option<Stats>) {
        self.witness.answered(stats);
        let now = host.now();
        let counted = self.census.result(host, &self.policy.scopes);
        let active = self.witness.active(now, self.moved(host), self.idle(&counted));
        if counted.trust == Trust::Exact && active == Some(0) && stats.is_some_and(|stats| stats.draining.unwrap_or(0) == 0) {
            self.cleared = Some(counted.since);
        }
        self.look_again(host);
    }

    /// Asks the app whether it is there.
    fn seek_app(&mut self, host: &impl Control, now: u64) {
        if read_record(host).phase != Phase::Draining {
            return;
        }
        if let Some(app) = &self.policy.app
            && !self.calls.iter().any(|(_, other)| *other == Call::App)
            && now.saturating_sub(self.app_asked) >= STATS_EVERY
        {
            self.app_asked = now;
            if let Some(number) = self.call(host, &app.cluster, "GET", &app.path) {
                self.calls.push((number, Call::App));
            }
        }
    }

    /// As the root: an answer to a call of a stream's would come to that stream, if it is still there.
    fn call(&self, host: &impl Control, cluster: &str, method: &str, path: &str) -> Option<u32> {
        host.enter(self.root);
        host.call(cluster, method, path, self.policy.patience)
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
            Call::Pass(stream, latched) => {
                self.passed(host, stream, latched, status, &body());
                self.settle(host); // the next signal's turn
            }
            Call::Stats => self.testified(host, well.then(|| Stats::read(&body(), &self.policy.ignore))),
            Call::App => {
                let gone = status.is_none() || (status == Some(503) && body().starts_with("upstream connect error"));
                self.app = Some((host.now(), !gone));
            }
        }
        true
    }

    // === signals

    /// Passes at once; the answer is Envoy's.
    fn pass(&mut self, host: &impl Control, stream: u32, path: &str, latched: bool) {
        match self.call(host, &self.policy.admin, "POST", path) {
            Some(call) => self.calls.push((call, Call::Pass(stream, latched))),
            None => self.passed(host, stream, latched, None, ""),
        }
    }

    /// Closes the gate to new streams, looks again, and passes the signal only if nothing is in flight. A stream counts itself before it
    /// looks at the gate, and the gate closes before it looks at the count: one of the two sees the other.
    fn signal(&mut self, host: &impl Control, waiter: Waiter) {
        let phase = read_record(host).phase;
        if phase.lets_go() {
            return self.pass(host, waiter.stream, &waiter.path, false);
        }
        match self.trust_of_signal(host, phase, &waiter) {
            Ok(()) => {}
            // Envoy's count was of a moment ago; the next one may be zero.
            Err(OLDER) if host.now() < waiter.until => return self.waiting.hold(waiter),
            Err(why) => return self.refuse(host, waiter.stream, why),
        }
        let closed = self.census.me().is_some_and(|me| self.latch.close(host, me, self.policy.patience));
        if !closed && host.now() < waiter.until {
            return self.waiting.hold(waiter);
        }
        if !closed {
            return self.refuse(host, waiter.stream, "another signal is being passed");
        }
        if self.holding(host) > 0 {
            self.reopen(host);
            return self.refuse(host, waiter.stream, "streams are in flight");
        }
        self.pass(host, waiter.stream, &waiter.path, true);
    }

    /// Whether the latch is closed now, and nothing in flight.
    fn nothing_can_begin(&mut self, host: &impl Control) -> bool {
        let closed = self.census.me().is_some_and(|me| self.latch.close(host, me, self.policy.patience));
        let nothing = closed && self.holding(host) == 0;
        if closed && !nothing {
            self.reopen(host);
        }
        nothing
    }

    fn trust_of_signal(&self, host: &impl Control, phase: Phase, waiter: &Waiter) -> Result<(), &'static str> {
        let mind = self.census.completed(host).is_some_and(|round| round >= waiter.round);
        let counted = self.census.result(host, &self.policy.scopes);
        let now = host.now();
        let active = self.witness.active(now, self.moved(host), self.idle(&counted));
        match self.trust(now, &counted, 0, active) {
            _ if phase == Phase::Drained => Ok(()),
            Trust::Exact if mind => Ok(()),
            Trust::Partial => Err(OLDER),
            Trust::Unknown => Err("nobody counts streams here"),
            Trust::Leaking => Err("a worker's counter has died"),
            Trust::Exact | Trust::Asking => Err("not all who count streams have answered"),
        }
    }

    fn reopen(&mut self, host: &impl Control) {
        if let Some(me) = self.census.me() {
            self.latch.open(host, me);
        }
    }

    fn refuse(&mut self, host: &impl Control, stream: u32, why: &str) {
        host.add(self.metrics.refused, 1);
        self.outcome(host, stream, 503, why);
    }

    fn passed(&mut self, host: &impl Control, stream: u32, latched: bool, status: Option<u16>, body: &str) {
        if latched {
            self.reopen(host);
        }
        match status {
            Some(status) => host.answer(stream, status, &[("content-type", "text/plain")], body),
            None => self.outcome(host, stream, 502, "Envoy's admin interface did not answer"),
        }
    }

    fn finished(&mut self, host: &impl Control, status: Option<u16>) {
        self.stepped(host, false, status == Some(200));
        if self.policy.finish == Finish::Quit {
            self.reopen(host);
        }
    }

    // === answers

    /// Answers whoever can be answered now.
    fn settle(&mut self, host: &impl Control) {
        let now = host.now();
        let record = read_record(host);
        let opens = self.opens(&record);
        let completed = self.census.completed(host).unwrap_or_default();
        let asking = self.asks_envoy();
        let ready = self.waiting.ready(|waiter| {
            now >= waiter.until
                || match waiter.what {
                    For::Counts | For::Signal => completed >= waiter.round && !asking,
                    For::Opening => opens,
                }
        });
        for waiter in ready {
            match waiter.what {
                For::Counts => self.tell_status(host, waiter.stream),
                For::Opening => self.tell_ready(host, waiter.stream),
                For::Signal => self.signal(host, waiter),
            }
        }
    }

    /// Whether who waits may go. SIGTERM may follow at once, so the agent must know before.
    fn opens(&self, record: &Record) -> bool {
        let agent_knows = self.policy.finish != Finish::DrainAgent || matches!(record.finish, Step::Done | Step::Failed);
        record.phase.is_open() && (record.phase != Phase::Drained || agent_knows)
    }

    fn tell_ready(&self, host: &impl Control, stream: u32) {
        let record = read_record(host);
        let open = self.opens(&record);
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
        let scope = |(scope, metrics): &(Scope, [Metric; 4])| {
            let [in_flight, long_lived, begun, _] = metrics.map(|metric| host.value(metric).unwrap_or_default());
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
            envoy_active: self.witness.stats(now).and_then(|(_, stats)| stats.active),
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
        } else if phase == Phase::Draining || finishing || !self.waiting.is_empty() || self.latch.is_mine() {
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
    update_record(host, &mut |record| result = Some(work(record)));
    result.unwrap_or_else(|| work(&mut Record::default()))
}

fn update_record(host: &impl Control, work: &mut dyn FnMut(&mut Record)) {
    change(host, RECORD, &mut |text| {
        let before = text.and_then(record::read).unwrap_or_default();
        let mut after = before.clone();
        work(&mut after);
        (after != before || text.is_none()).then(|| record::write(&after).into_bytes())
    });
}
