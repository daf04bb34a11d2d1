//! The drain as a machine: what is on record, what is seen, and what follows. Pure. All workers
//! work on one record, one at a time.
//!
//! ```text
//! serving ── drain ──► draining ── both counts zero, quiet ──► drained
//!    ▲                    │ ▲ ◄──────── a stream begins ─────────┘ │
//!    │                    │ ├──── deadline ──────► expired ────────┤
//!    │                    │ └──── force ─────────► forced ─────────┤
//!    └────── cancel, or the drain has run out ─────────────────────┘
//! ```
//!
//! `drained` is an observation, not a promise: it holds for the moment of the look. An open gate
//! that Envoy outlives serves again: after a drain that reached zero when its deadline passes, else
//! [`Policy::open_for`] after it opened.

#[cfg(feature = "schema")]
use schemars::JsonSchema;
use serde::Serialize;
use strum::{Display, VariantArray};

use super::policy::Policy;
use crate::config::wire::Finish;

/// How far the drain is. The order is that of the numbers in the metric.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Display, VariantArray)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case")]
pub enum Phase {
    /// No drain was asked for.
    Serving,
    /// A drain was asked for, and streams are, or may be, in flight.
    Draining,
    /// The last stream has ended and stayed ended.
    Drained,
    /// The deadline came first.
    Expired,
    /// An operator opened the gate.
    Forced,
}

impl Phase {
    /// Whether the gate is open whatever is in flight.
    pub const fn lets_go(self) -> bool {
        matches!(self, Self::Expired | Self::Forced)
    }

    /// Whether a drain goes on: the gate still looks at the counts.
    pub const fn is_draining(self) -> bool {
        matches!(self, Self::Draining | Self::Drained)
    }

    /// Whether the gate was open when it last looked.
    pub const fn is_open(self) -> bool {
        matches!(self, Self::Drained | Self::Expired | Self::Forced)
    }
}

/// A call to Envoy or its agent that must be made once, and may fail.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
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
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
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
            said: 0,
            why: String::new(),
        }
    }
}

/// How far a count can be believed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Display, VariantArray)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case")]
pub enum Trust {
    /// Every counter has answered, and Envoy's own count agrees.
    Exact,
    /// The counters, or Envoy, have not all answered yet.
    Asking,
    /// Every counter has answered; Envoy does not export its own count.
    Assumed,
    /// No counter is known.
    Unknown,
    /// Requests are, or may be, in flight that no counter knows.
    Partial,
    /// Envoy's stats matcher rejects a counter that tells what began in between.
    Rejected,
    /// A VM that counted has died: its streams are counted for ever, or run uncounted.
    Leaking,
}

/// Whether the app is still there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum App {
    /// It was not asked yet.
    Asking,
    /// Its port is open, whatever it answers, and be it nothing.
    There,
    /// Its port refuses connections.
    Gone,
    /// Envoy does not know its cluster, or no healthy endpoint in it. Whoever has begun to stop may
    /// say that he is not healthy.
    Unreachable,
}

/// Envoy's own count of the requests that hold the drain.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum EnvoyCount {
    /// Not known yet, or not any more.
    Asking,
    /// Envoy does not export it.
    Absent,
    /// So many.
    Holds(u64),
}

/// What is seen at one look.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Sight {
    /// How far `holding` can be believed; see [`believe`].
    pub trust: Trust,
    /// Up to when everything here is known to hold: every source was alive and complete when it was
    /// asked then.
    pub seen: u64,
    /// Streams that hold the drain, by the filter's count.
    pub holding: u64,
    /// Streams in flight of the VMs that answered.
    pub living: u64,
    /// Streams ever begun.
    pub begun: u64,
    /// The second witness.
    pub envoy: EnvoyCount,
    /// Bytes that wait to be written to clients, where that is known and fresh.
    pub buffered: Option<u64>,
    /// Whether that is never known, so that zero must last for longer.
    pub lingers: bool,
    /// Whether the app is still there, where that matters.
    pub app: App,
}

/// What the counters' answers are worth beside Envoy's own count. `may_miss`: streams may be older
/// than the counters, or on a filter chain without one, which only Envoy's count could tell.
#[must_use]
pub fn believe(counters: Trust, holding: u64, envoy: EnvoyCount, may_miss: bool) -> Trust {
    match (counters, envoy) {
        (Trust::Exact, EnvoyCount::Absent) if may_miss && holding == 0 => Trust::Partial,
        (Trust::Exact, EnvoyCount::Absent) => Trust::Assumed,
        (Trust::Exact, EnvoyCount::Holds(active)) if active > 0 && holding == 0 => Trust::Partial,
        (Trust::Exact, EnvoyCount::Asking) if holding == 0 => Trust::Asking,
        (counters, _) => counters,
    }
}

/// What keeps the gate closed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Reason {
    /// No drain was asked for.
    NotDraining,
    /// Streams are in flight.
    Streams(u64),
    /// The counters, or Envoy, are being asked.
    Asking,
    /// No counter is known, and Envoy's own count is not known either.
    NoCounter,
    /// Envoy's own count, where the filter's is not enough.
    Requests(Trust, u64),
    /// The filter's count cannot be believed, and Envoy's own is not known.
    Unsure(Trust),
    /// Bytes wait to be written.
    Bytes(u64),
    /// The app is still there, or that is not known.
    App(App),
    /// Traffic is not yet told to leave.
    Beginning,
    /// Zero, but not for long enough.
    Quiet {
        /// From when on.
        since: u64,
    },
    /// Zero; Istio's agent must be told before the hook may end.
    Finishing,
    /// Nothing: it is open.
    Open(Phase),
}

impl Sight {
    /// What is in flight at this moment, by either witness; nothing when both say zero, or have not
    /// answered yet.
    #[must_use]
    pub fn in_flight(&self) -> Option<Reason> {
        let counts = matches!(self.trust, Trust::Exact | Trust::Asking | Trust::Assumed);
        match (self.trust, self.envoy) {
            _ if counts && self.holding > 0 => Some(Reason::Streams(self.holding)),
            (trust, EnvoyCount::Holds(active)) if active > 0 => {
                Some(Reason::Requests(trust, active))
            }
            (Trust::Unknown, EnvoyCount::Absent) => Some(Reason::NoCounter),
            (trust, EnvoyCount::Absent) if !counts => Some(Reason::Unsure(trust)),
            _ => None,
        }
    }

    /// Whether both witnesses have answered, so that the absence of [`Self::in_flight`] is a zero.
    #[must_use]
    pub fn is_complete(&self) -> bool {
        self.trust != Trust::Asking && self.envoy != EnvoyCount::Asking
    }
}

/// What a worker does next. Each is handed out once: the record says that it is under way.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
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
        self.run_out(policy, now);
        let begins = self.phase == Phase::Serving;
        if begins {
            *self = Self {
                phase: Phase::Draining,
                began: now,
                deadline: now.saturating_add(policy.deadline),
                begun_before: begun,
                begun_last: begun,
                begin: if policy.begins() { Step::Due } else { Step::Done },
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

    /// Serves again when a drain is over and Envoy is not. A drain that reached zero ends with its
    /// deadline: a later hook is entitled to a deadline of its own.
    fn run_out(&mut self, policy: &Policy, now: u64) {
        if self.phase.is_draining() {
            // A shorter deadline of a new configuration counts; a longer one does not move the end
            // away.
            self.deadline = self.deadline.min(self.began.saturating_add(policy.deadline));
        }
        let is_over = match self.phase {
            Phase::Drained => now >= self.deadline,
            Phase::Expired | Phase::Forced => now >= self.ended.saturating_add(policy.open_for),
            Phase::Serving | Phase::Draining => false,
        };
        if is_over {
            *self = Self::default();
        }
    }

    /// Looks once. Says what keeps the gate closed, and what is to be done.
    pub fn look(&mut self, policy: &Policy, now: u64, sight: &Sight) -> (Reason, Option<Act>) {
        self.run_out(policy, now);
        let heal = heals(sight).then_some(Act::Heal);
        match self.phase {
            Phase::Serving => return (Reason::NotDraining, heal),
            Phase::Expired | Phase::Forced => return (Reason::Open(self.phase), heal),
            Phase::Draining | Phase::Drained => {}
        }
        if now >= self.deadline {
            self.phase = Phase::Expired;
            self.ended = now;
            return (Reason::Open(self.phase), heal);
        }
        let begin = self.begin_once(policy, now);
        let reason = self.held_by(policy, now, sight);
        self.observe(&reason, now);
        if reason != Reason::Open(Phase::Drained) {
            return (reason, begin.or(heal));
        }
        let finish = self.finish_once(policy, now);
        let agent_knows =
            policy.finish != Finish::DrainAgent || matches!(self.finish, Step::Done | Step::Failed);
        (if agent_knows { reason } else { Reason::Finishing }, finish.or(heal))
    }

    /// Zero makes the drain `drained`, and a stream takes that back. What is merely not known yet
    /// changes nothing.
    fn observe(&mut self, reason: &Reason, now: u64) {
        match (self.phase, reason) {
            (Phase::Draining, Reason::Open(_)) => (self.phase, self.ended) = (Phase::Drained, now),
            (Phase::Drained, Reason::Open(_) | Reason::Asking) => {}
            (Phase::Drained, _) => (self.phase, self.ended) = (Phase::Draining, 0),
            _ => {}
        }
    }

    /// Why it is not over; [`Reason::Open`] when it is. Zero is believed for the time up to which
    /// all sources were heard, not for now: a worker that dies takes its word for what came after
    /// with it. So both witnesses must have been asked after the quiet period.
    fn held_by(&mut self, policy: &Policy, now: u64, sight: &Sight) -> Reason {
        let bytes = sight.buffered.filter(|&bytes| bytes > 0).map(Reason::Bytes);
        let app =
            (policy.waits_for_app() && sight.app != App::Gone).then_some(Reason::App(sight.app));
        let begun = core::mem::replace(&mut self.begun_last, sight.begun);
        if let Some(reason) = sight.in_flight().or(bytes).or(app) {
            self.quiet_since = 0;
            return reason;
        }
        if self.quiet_since == 0 || begun != sight.begun {
            self.quiet_since = now;
        }
        if !matches!(self.begin, Step::Done | Step::Failed) {
            return Reason::Beginning;
        }
        let needed = policy.quiet.max(if sight.lingers { policy.linger } else { 0 });
        let end = self.quiet_since.saturating_add(needed);
        if now < end {
            Reason::Quiet { since: self.quiet_since }
        } else if sight.is_complete() && sight.seen >= end {
            Reason::Open(Phase::Drained)
        } else {
            Reason::Asking
        }
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
    sight.trust == Trust::Leaking && sight.envoy == EnvoyCount::Holds(0) && sight.living == 0
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
    /// The call was not made after all; it does not count as a try.
    pub fn put_off(&mut self) {
        if let Self::Under { tries, .. } = *self {
            *self = if tries > 1 { Self::Under { since: 0, tries: tries - 1 } } else { Self::Due };
        }
    }

    /// The call was answered; a failure is tried again at once, as long as it may be. An answer to
    /// a call of a drain that was taken back is none to this one, and a late failure does not undo
    /// another try's success.
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
