//! The drain as a machine: what is on record, what is seen, and what follows. Pure; all workers work on one record, one at a time.
//!
//! ```text
//! serving ── drain ──► draining ── zero, quiet ──► drained
//!    ▲                    │ ├──── deadline ──────► expired
//!    └────── cancel ──────┘ └──── force ─────────► forced
//! ```

use alloc::string::String;

use super::policy::Policy;
use crate::config::object::words;

words! {
    /// How far the drain is. The order is that of the numbers in the metric.
    Phase, optional => {
        /// Nobody wants to stop.
        Serving = "serving",
        /// Somebody wants to stop, and streams are, or may be, in flight.
        Draining = "draining",
        /// The last stream has ended and stayed ended.
        Drained = "drained",
        /// The deadline came first.
        Expired = "expired",
        /// An operator opened the gate.
        Forced = "forced",
    }
}

impl Phase {
    /// Whether streams in flight do not matter any more.
    pub const fn lets_go(self) -> bool {
        matches!(self, Self::Expired | Self::Forced)
    }

    /// Whether whoever waits may go.
    pub const fn is_open(self) -> bool {
        matches!(self, Self::Drained | Self::Expired | Self::Forced)
    }
}

/// A call to Envoy or its agent that must be made once, and may fail.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// Not yet.
    Due,
    /// A worker makes it, since when and for which time.
    Under {
        /// When that began.
        since: u64,
        /// For which time.
        tries: u64,
    },
    /// It was answered with success.
    Done,
    /// It was tried as often as it may be.
    Failed,
}

/// What all workers share.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Record {
    /// How far the drain is.
    pub phase: Phase,
    /// When it began; times are milliseconds of Envoy's clock.
    pub began: u64,
    /// When it is over whatever happens.
    pub deadline: u64,
    /// When it ended.
    pub ended: u64,
    /// The counter of begun streams when the drain began.
    pub begun_before: u64,
    /// The same at the last look.
    pub begun_last: u64,
    /// Since when nothing is in flight and nothing began; 0 when that is not so.
    pub quiet_since: u64,
    /// The call that makes traffic leave.
    pub begin: Step,
    /// The call after the last stream.
    pub finish: Step,
    /// How often a leaked count was put right.
    pub heals: u64,
    /// When the log last heard why it waits.
    pub said: u64,
    /// Why the gate was forced.
    pub why: String,
}

impl Default for Record {
    fn default() -> Self {
        Self {
            phase: Phase::Serving,
            began: 0,
            deadline: 0,
            ended: 0,
            begun_before: 0,
            begun_last: 0,
            quiet_since: 0,
            begin: Step::Due,
            finish: Step::Due,
            heals: 0,
            said: 0,
            why: String::new(),
        }
    }
}

words! {
    /// How far a count can be believed.
    Trust, optional => {
        /// Everybody who counts has answered, and nothing is missing.
        Exact = "exact",
        /// Those who count have been asked and have not all answered yet.
        Asking = "asking",
        /// Nobody counts, or nobody is known to.
        Unknown = "unknown",
        /// Streams may be older than the counter.
        Partial = "partial",
        /// Envoy's stats matcher rejects a counter that tells what began in between.
        Rejected = "rejected",
        /// A VM that counted has died; its streams are counted for ever, or run uncounted.
        Leaking = "leaking",
    }
}

/// Whether the app is still there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum App {
    /// It was not asked yet.
    Asking,
    /// Its port is open, whatever it answers, and be it nothing.
    There,
    /// Its port refuses connections.
    Gone,
    /// Envoy does not know its cluster, or no healthy endpoint in it. Whoever has begun to stop may say that he is not healthy.
    Unreachable,
}

/// What is seen at one look.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sight {
    /// How far `holding` can be believed.
    pub trust: Trust,
    /// Up to when everything here is known to hold: every source was alive and complete when it was asked then.
    pub seen: u64,
    /// Streams that hold the drain.
    pub holding: u64,
    /// Streams in flight of the VMs that answered.
    pub living: u64,
    /// Streams ever begun.
    pub begun: u64,
    /// Envoy's own count of requests in flight, less those that need not be waited for, where it is known and fresh.
    pub active: Option<u64>,
    /// Bytes that wait to be written to clients, where that is known and fresh.
    pub buffered: Option<u64>,
    /// Whether the app is still there, where that matters.
    pub app: App,
}

/// What keeps the gate closed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reason {
    /// Nobody asked for a drain.
    NotDraining,
    /// Streams are in flight.
    Streams(u64),
    /// Those who count are being asked.
    Asking,
    /// Nobody counts, and Envoy's own count is not known either.
    NobodyCounts,
    /// Envoy's own count, where the module's cannot be believed.
    Requests(Trust, u64),
    /// The module's count cannot be believed, and Envoy's own is not known.
    Unsure(Trust),
    /// Bytes wait to be written.
    Bytes(u64),
    /// The app is still there, or nobody knows.
    App(App),
    /// Traffic is not yet told to leave.
    Beginning,
    /// Zero, but not for long enough.
    Quiet {
        /// From when on.
        since: u64,
    },
    /// Nothing: it is open.
    Open(Phase),
}

/// What a worker does next. Each is handed out once: the record says that it is under way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Act {
    /// Make traffic leave.
    Begin,
    /// Make the last call.
    Finish,
    /// Take what was leaked off the gauges.
    Heal,
}

/// How often a call is tried, and how long each time may take at most before another worker tries.
const TRIES: u64 = 3;

impl Record {
    /// Begins a drain. Doing so twice changes nothing.
    pub fn drain(&mut self, policy: &Policy, now: u64, begun: u64) -> bool {
        let begins = self.phase == Phase::Serving;
        if begins {
            *self = Self {
                phase: Phase::Draining,
                began: now,
                deadline: now.saturating_add(policy.deadline),
                begun_before: begun,
                begun_last: begun,
                begin: if policy.begins() { Step::Due } else { Step::Done },
                heals: self.heals,
                ..Self::default()
            };
        }
        begins
    }

    /// Opens the gate, whatever is in flight.
    pub fn force(&mut self, now: u64, begun: u64, why: &str) {
        if self.phase != Phase::Forced {
            if self.phase == Phase::Serving {
                (self.began, self.begun_before) = (now, begun);
            }
            self.phase = Phase::Forced;
            self.ended = now;
            self.why = why.into();
        }
    }

    /// Looks once. Says what keeps the gate closed, and what is to be done.
    pub fn look(&mut self, policy: &Policy, now: u64, sight: &Sight) -> (Reason, Option<Act>) {
        match self.phase {
            Phase::Draining => {}
            Phase::Drained => return (Reason::Open(self.phase), self.finish_once(policy, now)),
            Phase::Serving => return (Reason::NotDraining, None),
            phase => return (Reason::Open(phase), None),
        }
        // A shorter deadline of a new configuration counts; a longer one does not move the end away.
        self.deadline = self.deadline.min(self.began.saturating_add(policy.deadline));
        if now >= self.deadline {
            self.phase = Phase::Expired;
            self.ended = now;
            return (Reason::Open(self.phase), None);
        }
        let begin = self.begin_once(policy, now);
        let reason = self.held_by(policy, now, sight);
        let act = begin.or_else(|| heals(sight).then_some(Act::Heal));
        if reason == Reason::Open(Phase::Drained) {
            self.phase = Phase::Drained;
            self.ended = now;
            return (reason, self.finish_once(policy, now));
        }
        (reason, act)
    }

    /// Why it is not over; [`Reason::Open`] when it is. Zero is believed for the time up to which all sources were heard, not for now:
    /// a worker that dies takes its word for what came after with it.
    fn held_by(&mut self, policy: &Policy, now: u64, sight: &Sight) -> Reason {
        let streams = match (sight.trust, sight.active) {
            (Trust::Exact | Trust::Asking, _) if sight.holding > 0 => Some(Reason::Streams(sight.holding)),
            (Trust::Exact | Trust::Asking, _) => None,
            (trust, Some(active)) if active > 0 => Some(Reason::Requests(trust, active)),
            (_, Some(_)) => None,
            (Trust::Unknown, None) => Some(Reason::NobodyCounts),
            (trust, None) => Some(Reason::Unsure(trust)),
        };
        let bytes = sight.buffered.filter(|&bytes| bytes > 0).map(Reason::Bytes);
        let app = (policy.waits_for_app() && sight.app != App::Gone).then_some(Reason::App(sight.app));
        let begun = core::mem::replace(&mut self.begun_last, sight.begun);
        if let Some(reason) = streams.or(bytes).or(app) {
            self.quiet_since = 0;
            return reason;
        }
        if self.quiet_since == 0 || begun != sight.begun {
            self.quiet_since = now;
        }
        if sight.trust == Trust::Asking {
            return Reason::Asking;
        }
        if !matches!(self.begin, Step::Done | Step::Failed) {
            return Reason::Beginning;
        }
        if sight.seen.saturating_sub(self.quiet_since) < policy.quiet.max(if sight.buffered.is_none() { policy.linger } else { 0 }) {
            return Reason::Quiet { since: self.quiet_since };
        }
        Reason::Open(Phase::Drained)
    }

    fn begin_once(&mut self, policy: &Policy, now: u64) -> Option<Act> {
        let due = now >= self.began.saturating_add(policy.delay);
        (due && take(&mut self.begin, policy, now)).then_some(Act::Begin)
    }

    fn finish_once(&mut self, policy: &Policy, now: u64) -> Option<Act> {
        (policy.finishes() && take(&mut self.finish, policy, now)).then_some(Act::Finish)
    }

    /// How long the drain has gone on, or went on.
    pub fn lasted(&self, now: u64) -> u64 {
        let until = if self.ended == 0 { now } else { self.ended };
        if self.began == 0 { 0 } else { until.saturating_sub(self.began) }
    }

    /// Streams that came after the drain began.
    pub fn late(&self, begun: u64) -> u64 {
        if self.phase == Phase::Serving { 0 } else { begun.saturating_sub(self.begun_before) }
    }
}

/// Two sources agree that nothing is in flight, and only the dead VM's count says otherwise.
fn heals(sight: &Sight) -> bool {
    sight.trust == Trust::Leaking && sight.active == Some(0) && sight.living == 0
}

/// Claims a step that is due, or whose worker has not come back.
fn take(step: &mut Step, policy: &Policy, now: u64) -> bool {
    let tries = match *step {
        Step::Due => 0,
        Step::Under { since, tries } if now >= since.saturating_add(2 * policy.patience) => tries,
        _ => return false,
    };
    if tries >= TRIES {
        *step = Step::Failed;
        return false;
    }
    *step = Step::Under { since: now, tries: tries + 1 };
    true
}

impl Step {
    /// The call was answered; a failure is tried again at once, as long as it may be. An answer to a call of a drain that was taken back
    /// is none to this one, and a late failure does not undo another try's success.
    pub fn answered(&mut self, well: bool) {
        *self = match (well, *self) {
            (_, Self::Due) => Self::Due,
            (true, _) | (_, Self::Done) => Self::Done,
            (false, Self::Under { tries, .. }) if tries < TRIES => Self::Under { since: 0, tries },
            _ => Self::Failed,
        };
    }
}

#[cfg(all(test, not(target_arch = "wasm32")))]
#[path = "machine_properties.rs"]
mod properties;
