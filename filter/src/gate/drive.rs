//! What the gate does: begins the drain, looks, takes it back, calls Envoy and the agent, puts
//! leaked counts right.

use strum::VariantArray as _;

use super::answers::sentence;
use super::app;
use super::census::Survey;
use super::machine::{Act, EnvoyCount, Phase, Reason, Record, Step, Trust};
use super::root::{Call, Gate};
use super::signals::Passing;
use super::snapshot::Snapshot;
use super::stats::{Managers, Stats};
use crate::config::wire::BeginCall;
use crate::host::{Control, Level, change};
use crate::parse::digits;

/// How often a leaked count was put right, in shared data: by one gate only, whatever gates there
/// are.
const HEALS: &str = "laststream.heals";
/// How many looks a leak is worth that both witnesses could put right.
const HEAL_LOOKS: u32 = 200;

/// A call that the record knows of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum CallKind {
    /// Makes traffic leave.
    Begin,
    /// The last one.
    Finish,
}

impl Gate {
    pub(super) fn drain(&mut self, host: &impl Control) {
        let (now, begun) = (host.now(), self.total_begun(host));
        let mut began = false;
        self.record.update(host, &mut |record| began = record.drain(&self.policy, now, begun));
        if began {
            host.log(
                Level::Warning,
                &format!(
                    "the drain begins: deadline in {} ms, quiet for {} ms",
                    self.policy.deadline, self.policy.quiet
                ),
            );
            host.set(self.metrics.state, Phase::Draining as u64);
            // The quiet period begins now, not with the first tick.
            self.ask(host);
            self.evaluate_and_answer(host);
        }
    }

    /// Takes the drain back: the gate's always, Envoy's where it can be.
    pub(super) fn cancel(&mut self, host: &impl Control, stream: u32) {
        let record = self.record.read(host);
        if record.phase == Phase::Serving {
            return self.respond_plainly(host, stream, 200, "there is no drain");
        }
        let has_begun = self.policy.begins() && record.began > 0 && record.begin != Step::Due;
        match self.policy.undo_path().filter(|_| has_begun) {
            Some(path) => match self.call(host, &self.policy.admin, "POST", path) {
                Some(call) => self.calls.push((call, Call::Cancel(stream))),
                None => self.serve_again(host, stream, NOT_UNDONE),
            },
            None if has_begun && self.policy.begin == BeginCall::DrainListeners => {
                self.serve_again(host, stream, STAYS_DRAINED)
            }
            None => self.serve_again(host, stream, ""),
        }
    }

    fn serve_again(&mut self, host: &impl Control, stream: u32, but: &str) {
        self.record.update(host, &mut |record| *record = Record::default());
        host.set(self.metrics.state, Phase::Serving as u64);
        host.log(Level::Warning, &format!("the drain was taken back{but}"));
        self.ask(host);
        let sealed = if super::latch::is_sealed(host) { STAYS_SEALED } else { "" };
        self.respond_plainly(host, stream, 200, &format!("the drain was taken back{but}{sealed}"));
    }

    /// Looks once, and does what follows.
    pub(super) fn evaluate(&mut self, host: &impl Control) -> Snapshot {
        let now = host.now();
        let survey = self.survey(host);
        let record = self.record.read(host);
        self.query_envoy(host, now, &record, &survey);
        self.query_app(host, now, &record);
        let sight = self.sight(host, now, &survey, self.app(&record));
        let (mut before, mut after) = (Phase::Serving, Record::default());
        let (mut reason, mut act, mut speaks) = (Reason::NotDraining, None, false);
        self.record.update(host, &mut |record| {
            before = record.phase;
            (reason, act) = record.look(&self.policy, now, &sight);
            speaks = record.phase == Phase::Draining && now.saturating_sub(record.said) >= 1_000;
            if speaks {
                record.said = now;
            }
            after.clone_from(record);
        });
        if speaks {
            host.log(
                Level::Info,
                &format!("draining: {}", sentence(&reason, &after, now, self.policy.quiet)),
            );
        }
        let snapshot =
            Snapshot { now, survey, stats: self.witness.stats(now), sight, record: after, reason };
        self.tell(host, before, &snapshot);
        self.tell_trust(host, &snapshot);
        let is_healing =
            snapshot.sight.trust == Trust::Leaking && snapshot.sight.envoy == EnvoyCount::Holds(0);
        self.heal_looks = if is_healing { self.heal_looks.saturating_add(1) } else { 0 };
        if let Some(act) = act {
            self.act(host, act, &snapshot.survey);
        }
        snapshot
    }

    pub(super) fn is_healing(&self) -> bool {
        (1..HEAL_LOOKS).contains(&self.heal_looks)
    }

    /// What the metrics and the log say of the drain.
    fn tell(&self, host: &impl Control, before: Phase, snapshot: &Snapshot) {
        let (record, now) = (&snapshot.record, snapshot.now);
        let late = record.late(snapshot.sight.begun);
        host.set(self.metrics.late, late);
        host.set(self.metrics.seconds, record.lasted(now) / 1_000);
        if before == record.phase {
            return;
        }
        host.set(self.metrics.state, record.phase as u64);
        if record.phase == Phase::Expired {
            host.add(self.metrics.expired, 1);
        }
        let line = match record.phase {
            Phase::Serving => {
                "the drain is over, and Envoy is still alive: the gate serves again".into()
            }
            Phase::Draining => format!(
                "the drain goes on: {}",
                sentence(&snapshot.reason, record, now, self.policy.quiet)
            ),
            open => format!(
                "the drain ends: {open} after {} ms; {late} streams came late",
                record.lasted(now)
            ),
        };
        host.log(Level::Warning, &line);
    }

    /// What they say of the count. What is merely being asked is no news.
    fn tell_trust(&mut self, host: &impl Control, snapshot: &Snapshot) {
        let trust = snapshot.sight.trust;
        if self.told_trust == Some(trust) || trust == Trust::Asking && self.told_trust.is_some() {
            return;
        }
        self.told_trust = Some(trust);
        for (other, gauge) in Trust::VARIANTS.iter().zip(&self.metrics.count) {
            host.set(*gauge, (*other == trust).into());
        }
        if trust == Trust::Assumed {
            host.log(Level::Warning, &format!("the count is assumed: {}", super::answers::ADVICE));
        }
    }

    fn act(&mut self, host: &impl Control, act: Act, survey: &Survey) {
        match act {
            Act::Begin => {
                match self.call(host, &self.policy.admin, "POST", self.policy.begin_path()) {
                    Some(call) => self.calls.push((call, Call::Begin)),
                    None => self.record_call_result(host, CallKind::Begin, false),
                }
            }
            Act::Finish => {
                // Without the gauge that streams look at nothing can be sent safely, and the hook
                // must not wait for it.
                if self.close_latch(host, Passing::Finish).is_err() {
                    if self.latch.is_rejected() {
                        self.record_call_result(host, CallKind::Finish, false);
                    } else {
                        self.record.update(host, &mut |record| record.finish.put_off());
                    }
                }
            }
            Act::Heal => self.heal(host, survey),
        }
    }

    pub(super) fn record_call_result(&self, host: &impl Control, kind: CallKind, well: bool) {
        self.record.update(host, &mut |record| {
            match kind {
                CallKind::Begin => &mut record.begin,
                CallKind::Finish => &mut record.finish,
            }
            .answered(well);
        });
        if !well {
            let failed = match kind {
                CallKind::Begin => "the call that makes traffic leave failed",
                CallKind::Finish => "the last call failed",
            };
            host.log(Level::Warning, failed);
        }
    }

    /// How often a leaked count was put right.
    pub(super) fn heals(&self, host: &impl Control) -> u64 {
        host.shared(HEALS).and_then(|(text, _)| digits(&text)).unwrap_or_default()
    }

    /// No living counter has a stream and Envoy has no request: what the gauges said then are
    /// streams of the dead. Exactly that is taken off, not what they say now, and by one gate only:
    /// a stream that has begun since is not among them.
    fn heal(&mut self, host: &impl Control, survey: &Survey) {
        let Some((leaked, heals)) = self.witness.leaked(host.now()) else { return };
        let gauges = || self.metrics.gauges.iter().zip(leaked);
        let still = gauges()
            .all(|(gauge, leaked)| host.value(*gauge).is_some_and(|value| value >= *leaked));
        let streams: u64 = leaked.iter().step_by(2).sum();
        if streams > 0 {
            if !still || !claim_heal(host, heals) {
                return;
            }
            for (gauge, leaked) in gauges() {
                host.add(*gauge, i64::try_from(*leaked).unwrap_or_default().wrapping_neg());
            }
            host.add(self.metrics.heals, 1);
            host.log(
                Level::Warning,
                &format!(
                    "healed: {streams} streams were counted by workers' \
                VMs that have died; Envoy has none"
                ),
            );
        }
        self.census.write_off(host, &survey.lost, &survey.replaced);
    }

    pub(super) fn call(
        &self,
        host: &impl Control,
        cluster: &str,
        method: &str,
        path: &str,
    ) -> Option<u32> {
        self.call_for(host, cluster, method, path, self.policy.patience)
    }

    /// As the root, which Envoy charges for the call; the SDK hands its answer to the root because
    /// each call is made in a callback of it.
    pub(super) fn call_for(
        &self,
        host: &impl Control,
        cluster: &str,
        method: &str,
        path: &str,
        patience: u64,
    ) -> Option<u32> {
        host.enter(self.root);
        host.call(cluster, method, path, patience)
    }

    /// An answer to a call is here. Without headers there was none, and they must not be read.
    pub(crate) fn called(
        &mut self,
        host: &impl Control,
        number: u32,
        num_headers: usize,
        body_size: usize,
    ) -> bool {
        let Some(index) = self.calls.iter().position(|(other, _)| *other == number) else {
            return false;
        };
        let (_, call) = self.calls.swap_remove(index);
        let is_answered = num_headers > 0;
        let status = if is_answered { host.called_status() } else { None };
        let well = status == Some(200);
        let body = || String::from_utf8_lossy(&host.called_body(body_size)).into_owned();
        match call {
            Call::Begin => self.record_call_result(host, CallKind::Begin, well),
            Call::Finish => self.finished(host, status),
            Call::Cancel(stream) => {
                self.serve_again(host, stream, if well { "" } else { NOT_UNDONE })
            }
            Call::Pass { stream, latched, quits } => {
                self.passed(host, stream, latched, quits, status, &body())
            }
            Call::Stats => {
                let managers =
                    Managers { scopes: &self.policy.scopes, ignore: &self.policy.ignore };
                let stats = well.then(|| Stats::read(&body(), managers));
                self.on_envoy_stats(host, stats);
            }
            Call::App => {
                let is_from_app = is_answered && host.called_header(app::FROM_THE_APP).is_some();
                self.app = Some((self.app_asked, app::read(status, is_from_app, &body())));
            }
        }
        self.evaluate_and_answer(host);
        true
    }
}

const NOT_UNDONE: &str =
    "; Envoy's admin interface did not answer, so health checks may go on failing";
const STAYS_DRAINED: &str = "; Envoy cannot undrain its listeners: it goes on telling clients to \
    leave until it is restarted (`fail_health_checks` can be undone)";
const STAYS_SEALED: &str = "; the signal to end was sent and cannot be taken back: new streams are \
    refused until the process ends";

/// False: another gate was quicker.
fn claim_heal(host: &impl Control, heals: u64) -> bool {
    let mut is_mine = false;
    let changed = change(host, HEALS, &mut |text| {
        is_mine = text.and_then(digits::<u64>).unwrap_or_default() == heals;
        is_mine.then(|| format!("{}", heals + 1).into_bytes())
    });
    is_mine && changed
}
