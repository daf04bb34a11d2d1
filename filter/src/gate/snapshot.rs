//! What one worker's gate knows at one moment, and whom it asks to know more: the counters, Envoy,
//! the app. Decides nothing.

use strum::VariantArray as _;

use super::census::{Survey, Wanted};
use super::machine::{App, EnvoyCount, Phase, Reason, Record, Sight, Step, Trust, believe};
use super::questions::Questions;
use super::root::{Call, Gate};
use super::stats::{self, Stats};
use super::waiting::{For, Needs};
use super::witness::{Before, Idle, Sides, Witness};
use crate::census::is_rejected;
use crate::config::wire::Scope;
use crate::host::{Control, Metric};

/// Envoy's own count, and the app, are asked for so often at most; milliseconds. In each tick, also
/// one that comes a little early.
const EVERY: u64 = 50;
/// An answer with statistics may take so many times what others may: Envoy goes through all that it
/// has.
const PATIENCE: u64 = 10;
/// How often the counts of one moment are read before the long-lived streams are held to be none.
const READS: usize = 4;

/// One moment. All that is answered and done in one call of the VM is by one of these.
#[derive(Debug)]
pub(super) struct Snapshot {
    pub(super) now: u64,
    pub(super) survey: Survey,
    /// What Envoy answered last, while that is good.
    pub(super) stats: Option<Stats>,
    pub(super) sight: Sight,
    /// The record after the look, and what the look said.
    pub(super) record: Record,
    pub(super) reason: Reason,
}

impl Snapshot {
    /// Whether the gate is open at this moment.
    pub(super) fn is_open(&self) -> bool {
        matches!(self.reason, Reason::Open(_))
    }

    /// Whether newer answers may find it open.
    pub(super) fn may_open(&self) -> bool {
        matches!(self.reason, Reason::Open(_) | Reason::Asking | Reason::Finishing)
    }

    /// Whether those answers have come, or are not to be expected; of Envoy's, also what the
    /// counters know of the requests in it.
    pub(super) fn has_heard(&self, witness: &Witness, needs: Needs) -> bool {
        let has_heard_envoy =
            || witness.has_heard(needs.question) && self.sight.envoy != EnvoyCount::Asking;
        self.survey.completed >= needs.round && (needs.question == 0 || has_heard_envoy())
    }
}

impl Gate {
    /// Streams ever begun that are counted for this gate.
    pub(super) fn total_begun(&self, host: &impl Control) -> u64 {
        let begun =
            |(_, [_, _, begun]): &(Scope, [Metric; 3])| host.value(*begun).unwrap_or_default();
        self.metrics.scopes.iter().map(begun).fold(0, u64::saturating_add)
    }

    /// Streams that hold. More than there can be is an error of accounting, not zero.
    ///
    /// In flight and long-lived are two values that cannot be read at once. If no stream began
    /// between the reads, in flight read first is never less than the truth, and long-lived never
    /// more; see `stream::Stream::count`. If one did, long-lived streams hold, too.
    pub(super) fn holding(&self, host: &impl Control) -> u64 {
        let sum = |which: usize| {
            let values = self
                .metrics
                .scopes
                .iter()
                .map(|(_, metrics)| host.value(metrics[which]).unwrap_or(u64::MAX));
            values.fold(0, u64::saturating_add)
        };
        let [in_flight, long_lived] = [0, 1];
        for _ in 0..READS {
            let begun = self.total_begun(host);
            let all = sum(in_flight);
            if all == 0 || !self.policy.exempts {
                return all;
            }
            let long_lived = sum(long_lived);
            if self.total_begun(host) == begun {
                return all.saturating_sub(long_lived);
            }
        }
        sum(in_flight)
    }

    /// Streams ever begun, counted or excluded: of this gate's scopes, and of others.
    fn moved(&self, host: &impl Control) -> Sides {
        let mut moved = [0_u64; 2];
        for (scope, counter) in &self.metrics.everywhere {
            let side = usize::from(!self.policy.scopes.contains(scope));
            moved[side] = moved[side].saturating_add(host.value(*counter).unwrap_or_default());
        }
        moved
    }

    fn stats_patience(&self) -> u64 {
        self.policy.patience.saturating_mul(PATIENCE)
    }

    /// How long Envoy's main thread has been busy with the gates' questions.
    pub(super) fn busy(&self, host: &impl Control) -> u64 {
        Questions::read(host).busy(host.now())
    }

    pub(super) fn survey(&self, host: &impl Control) -> Survey {
        let wanted = Wanted {
            scopes: &self.policy.scopes,
            exempts: self.policy.exempts,
            idle_since: self.witness.round(),
            busy: self.busy(host),
        };
        self.census.survey(host, wanted)
    }

    /// The counts come first, and the streams ever begun last: if none is in flight and none began
    /// since, none was there in between.
    pub(super) fn sight(
        &self,
        host: &impl Control,
        now: u64,
        survey: &Survey,
        app: Option<(u64, App)>,
    ) -> Sight {
        let holding = self.holding(host);
        let begun = self.total_begun(host);
        let stats = self.witness.stats(now);
        let is_complete = survey.completed >= self.witness.round();
        // Where a counter stands still it cannot be told whether a stream that is idle now was
        // there before.
        let can_tell = !Scope::VARIANTS.iter().any(|scope| is_rejected(host, *scope));
        let idle = Idle {
            idle: if can_tell { survey.idle } else { [0; 2] },
            moved: self.moved(host),
            is_complete,
        };
        let envoy = self.witness.count(now, idle, is_blind(survey.trust));
        let totals = if is_blind(survey.trust) { self.witness.total() } else { 0 };
        let app_seen = app.map_or(u64::MAX, |(asked, _)| asked);
        Sight {
            trust: believe(survey.trust, holding, envoy, self.may_miss(now, survey, stats)),
            seen: survey.seen.min(self.witness.seen()).min(app_seen),
            holding,
            living: survey.living,
            begun: begun.saturating_add(totals),
            envoy,
            buffered: stats.and_then(|stats| stats.buffered),
            lingers: !self.witness.tells_bytes(),
            app: app.map_or(App::Asking, |(_, app)| app),
        }
    }

    /// Whether there may be streams that no counter knows, as far as that can be told without
    /// Envoy's own count of them.
    fn may_miss(&self, now: u64, survey: &Survey, stats: Option<Stats>) -> bool {
        let is_young = now.saturating_sub(survey.since) < self.policy.assumed_after;
        let Some(stats) = stats else { return is_young };
        // A request to the gate has a connection; if there is no other, there is no stream.
        if stats.connections.is_some_and(|connections| connections <= self.callers.min(1)) {
            return false;
        }
        // One for each worker and the main thread; a VM that never came to enter itself may be
        // dead.
        let each = stats.workers.unwrap_or(0) + 1;
        let is_missing = survey.members < each.saturating_mul(self.policy.scopes.len() as u64);
        is_young || is_missing || stats.draining.unwrap_or(0) > 0
    }

    /// Asks Envoy what it counts, when that matters.
    pub(super) fn query_envoy(
        &mut self,
        host: &impl Control,
        now: u64,
        record: &Record,
        survey: &Survey,
    ) {
        if self.asks_envoy()
            || !self.needs_envoy(host, now, record, survey)
            || !Questions::begin(host)
        {
            return;
        }
        let with_totals = is_blind(survey.trust);
        let gauges = self
            .metrics
            .gauges
            .iter()
            .map(|gauge| host.value(*gauge).unwrap_or_default())
            .collect();
        self.witness.ask(Before {
            at: now,
            moved: self.moved(host),
            gauges,
            heals: self.heals(host),
            with_totals,
        });
        let path = if with_totals { stats::ALL } else { stats::GAUGES };
        match self.call_for(host, &self.policy.admin, "GET", path, self.stats_patience()) {
            Some(number) => self.calls.push((number, Call::Stats)),
            None => self.on_envoy_stats(host, None),
        }
    }

    /// While the filter's count is not zero, or not quiet for long enough, Envoy's cannot open the
    /// gate. Where the filter's cannot be believed, Envoy's tells what began, too, and is needed
    /// all the time.
    fn needs_envoy(&self, host: &impl Control, now: u64, record: &Record, survey: &Survey) -> bool {
        let is_fresh = self.witness.stats(now).is_some();
        // An answer that grew old before the counters' answers came is asked for again.
        let is_due = |number: u64| !self.witness.has_asked(number) || !is_fresh;
        if self.passage.as_ref().is_some_and(|passage| is_due(passage.needs.question)) {
            return true;
        }
        // What is to pass needs the next question for itself, once the latch is closed; a count
        // that is still good is enough to try.
        let is_kept = self.is_telling_the_agent(record) || self.waiting.has_untried_signal();
        if is_kept && is_fresh {
            return false;
        }
        if self.waiting.wanted_question().is_some_and(|number| number > 0 && is_due(number)) {
            return true;
        }
        if now.saturating_sub(self.witness.asked_at()) < EVERY {
            return false;
        }
        let is_blind = is_blind(survey.trust);
        if self.waiting.presses() || self.is_healing() {
            return self.witness.is_new() || is_blind || self.holding(host) == 0;
        }
        let may_open = match record.phase {
            Phase::Draining => is_blind || self.quiet_ends(record).is_some_and(|end| end <= now),
            Phase::Drained => self.waiting.any(For::Opening) || self.is_telling_the_agent(record),
            Phase::Serving | Phase::Expired | Phase::Forced => false,
        };
        may_open && (is_blind || self.holding(host) == 0)
    }

    pub(super) fn asks_envoy(&self) -> bool {
        self.calls.iter().any(|(_, call)| *call == Call::Stats)
    }

    /// What Envoy counts is here. Requests that hold no drain are told from others by the counters,
    /// asked after that.
    pub(super) fn on_envoy_stats(&mut self, host: &impl Control, stats: Option<Stats>) {
        Questions::end(host);
        self.witness.answered(host.now(), self.census.round() + 1, stats);
        if stats.is_some_and(|stats| stats.active.is_some_and(|active| active > 0)) {
            self.ask(host);
        }
    }

    /// What this drain's last answer of the app says; one to an earlier drain says nothing.
    pub(super) fn app(&self, record: &Record) -> Option<(u64, App)> {
        self.app.filter(|(asked, _)| *asked >= record.began)
    }

    /// Asks the app whether it is there: every so often, and once more when the quiet period ends.
    pub(super) fn query_app(&mut self, host: &impl Control, now: u64, record: &Record) {
        let Some(app) = &self.policy.app else { return };
        let decides = self.quiet_ends(record).is_some_and(|end| self.app_asked < end && end <= now);
        let is_due = decides || now.saturating_sub(self.app_asked) >= EVERY;
        if !record.phase.is_draining()
            || !is_due
            || self.calls.iter().any(|(_, call)| *call == Call::App)
        {
            return;
        }
        self.app_asked = now;
        match self.call_for(host, &app.cluster, "GET", &app.path, self.policy.patience) {
            Some(number) => self.calls.push((number, Call::App)),
            None => self.app = Some((now, App::Unreachable)),
        }
    }

    /// Whether the last call is yet to be made.
    pub(super) fn is_telling_the_agent(&self, record: &Record) -> bool {
        record.phase == Phase::Drained
            && self.policy.finishes()
            && !matches!(record.finish, Step::Done | Step::Failed)
    }
}

/// Whether the counters cannot tell what began in between, so that Envoy must. Those that are
/// merely being asked can.
fn is_blind(counters: Trust) -> bool {
    !matches!(counters, Trust::Exact | Trust::Asking)
}
