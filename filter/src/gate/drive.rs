//! What the gate does: begins the drain, looks, takes it back, calls Envoy and the agent, puts leaked counts right.

use super::answers::sentence;
use super::app;
use super::census::Result as Counted;
use super::machine::{Act, Phase, Reason, Record, Step};
use super::record::{read_record, update};
use super::root::{Call, Gate};
use super::stats::Stats;
use crate::config::wire::Finish;
use crate::host::{Control, Level};
use crate::pieces::text;
use crate::words::lossy;

impl Gate {
    pub(super) fn drain(&mut self, host: &impl Control) {
        let (now, begun) = (host.now(), self.begun(host));
        let mut began = false;
        update(host, &mut |record| began = record.drain(&self.policy, now, begun));
        if began {
            host.log(
                Level::Warning,
                &text!["the drain begins: deadline in ", self.policy.deadline, " ms, quiet for ", self.policy.quiet, " ms"],
            );
            host.set(self.metrics.state, Phase::Draining as u64);
            self.look(host);
        }
    }

    pub(super) fn cancel(&mut self, host: &impl Control, stream: u32) {
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

    pub(super) fn serve_again(&mut self, host: &impl Control, stream: u32) {
        update(host, &mut |record| *record = Record { heals: record.heals, ..Record::default() });
        host.set(self.metrics.state, Phase::Serving as u64);
        host.log(Level::Warning, "the drain was taken back");
        self.ask(host);
        self.outcome(host, stream, 200, "the drain was taken back");
    }

    pub(super) fn look(&mut self, host: &impl Control) {
        let now = host.now();
        let counted = self.census.result(host, &self.policy.scopes);
        self.seek_witness(host, now, &counted);
        self.seek_app(host, now);
        let sight = self.sight(host, now, &counted);
        let (mut before, mut after) = (Phase::Serving, Record::default());
        let (mut reason, mut act, mut speaks) = (Reason::NotDraining, None, false);
        update(host, &mut |record| {
            before = record.phase;
            (reason, act) = record.look(&self.policy, now, &sight);
            speaks = record.phase == Phase::Draining && now.saturating_sub(record.said) >= 1_000;
            if speaks {
                record.said = now;
            }
            after.clone_from(record);
        });
        if speaks {
            host.log(Level::Info, &text!["draining: ", sentence(&reason, &after, now, self.policy.quiet)]);
        }
        if let Some(act) = act {
            self.act(host, act, &counted);
        }
        host.set(self.metrics.late, after.late(sight.begun));
        host.set(self.metrics.seconds, after.lasted(now) / 1_000);
        if before == Phase::Draining && after.phase.is_open() {
            if after.phase == Phase::Expired {
                host.add(self.metrics.expired, 1);
            }
            self.opened(host);
        }
    }

    pub(super) fn opened(&self, host: &impl Control) {
        let record = read_record(host);
        let took = record.lasted(host.now());
        host.set(self.metrics.state, record.phase as u64);
        host.set(self.metrics.seconds, took / 1_000);
        let late = record.late(self.begun(host));
        host.log(Level::Warning, &text!["the drain ends: ", record.phase.name(), " after ", took, " ms; ", late, " streams came late"]);
    }

    pub(super) fn act(&mut self, host: &impl Control, act: Act, counted: &Counted) {
        let call = match act {
            Act::Begin => self.call(host, &self.policy.admin, "POST", self.policy.begin_path()).map(|call| (call, Call::Begin)),
            Act::Finish if self.policy.finish == Finish::DrainAgent => {
                self.call(host, &self.policy.agent, "POST", "/drain").map(|call| (call, Call::Finish))
            }
            Act::Finish if self.nothing_can_begin(host) => {
                self.call(host, &self.policy.admin, "POST", "/quitquitquit").map(|call| (call, Call::Finish))
            }
            Act::Finish if self.latch.is_rejected() => return self.stepped(host, false, false),
            // A stream came late; it is waited for, too.
            Act::Finish => return update(host, &mut |record| record.finish = Step::Due),
            Act::Heal => return self.heal(host, counted),
        };
        match call {
            Some(call) => self.calls.push(call),
            None if act == Act::Finish => self.finished(host, None),
            None => self.stepped(host, true, false),
        }
    }

    pub(super) fn stepped(&self, host: &impl Control, begin: bool, well: bool) {
        update(host, &mut |record| if begin { &mut record.begin } else { &mut record.finish }.answered(well));
        if !well {
            host.log(Level::Warning, if begin { "the call that makes traffic leave failed" } else { "the last call failed" });
        }
    }

    pub(super) fn finished(&mut self, host: &impl Control, status: Option<u16>) {
        self.stepped(host, false, status == Some(200));
        if self.policy.finish == Finish::Quit {
            self.reopen(host);
        }
    }

    /// Nobody living has a stream and Envoy has no request: what the gauges said then are streams of the dead. Exactly that is taken off,
    /// not what they say now, and by one worker only: a stream that has begun since is not among them.
    pub(super) fn heal(&mut self, host: &impl Control, counted: &Counted) {
        let Some(leaked) = self.witness.leaked(host.now()) else { return };
        let gauges = || self.metrics.gauges.iter().zip(leaked);
        let still = gauges().all(|(gauge, leaked)| host.value(*gauge).is_some_and(|value| value >= *leaked));
        let streams: u64 = leaked.iter().step_by(2).sum();
        if streams > 0 {
            let heals = self.heals_before;
            let mut mine = false;
            if still {
                update(host, &mut |record| {
                    mine = record.heals == heals;
                    record.heals += u64::from(mine);
                });
            }
            if !mine {
                return;
            }
            for (gauge, leaked) in gauges() {
                host.add(*gauge, i64::try_from(*leaked).unwrap_or_default().wrapping_neg());
            }
            host.add(self.metrics.heals, 1);
            host.log(Level::Warning, &text!["healed: ", streams, " streams were counted by workers' VMs that have died; Envoy has none"]);
        }
        self.census.bury(host, &counted.replaced);
    }

    /// As the root: an answer to a call of a stream's would come to that stream, if it is still there.
    pub(super) fn call(&self, host: &impl Control, cluster: &str, method: &str, path: &str) -> Option<u32> {
        host.enter(self.root);
        host.call(cluster, method, path, self.policy.patience)
    }

    /// An answer to a call is here.
    pub(crate) fn called(&mut self, host: &impl Control, number: u32, length: usize) -> bool {
        let Some(index) = self.calls.iter().position(|(other, _)| *other == number) else { return false };
        let (_, call) = self.calls.swap_remove(index);
        let status = host.called_status();
        let well = status == Some(200);
        let body = || lossy(&host.called_body(length));
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
                let answered = host.called_header(app::FROM_THE_APP).is_some();
                self.app = Some((self.app_asked, app::read(status, answered, &body())));
            }
        }
        true
    }
}
