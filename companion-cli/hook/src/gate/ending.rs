//! How the program ends: a signal begins the drain, and when that is over, Envoy ends that this
//! program has started, and then the program.

use laststream_drain::state::{Millis, Moment};
use rustix::process::Signal;
use serde_json::Value;

use crate::Exit;
use crate::exec::{Child, Reaper, code_of};

/// How long the last call may take, and Envoy to end after it.
const PATIENCE: Millis = Millis(5_000);
/// How long no program must listen at Envoy's address until a drain is over that a signal began.
const GONE_AFTER: Millis = Millis(1_000);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    Serving,
    /// A signal has asked for the drain.
    Asked,
    Draining,
    /// The gate is open since then; whether its drain reached zero.
    Open {
        since: Moment,
        is_drained: bool,
    },
    /// Envoy was told to end.
    Told {
        since: Moment,
        is_killed: bool,
    },
    Over(Exit),
}

/// See the module.
pub(super) struct Ending {
    child: Option<Child>,
    reaper: Reaper,
    stage: Stage,
    has_last_call: bool,
    /// Whether Envoy's runtime can be told to refuse requests; without that there is no last call.
    pub(super) has_latch: bool,
}

impl Ending {
    pub(super) fn new(child: Option<Child>, has_last_call: bool) -> Self {
        let (reaper, stage) = (Reaper::default(), Stage::Serving);
        Self { child, reaper, stage, has_last_call, has_latch: false }
    }

    pub(super) fn is_busy(&self) -> bool {
        matches!(
            self.stage,
            Stage::Asked | Stage::Draining | Stage::Open { .. } | Stage::Told { .. }
        )
    }

    pub(super) fn exit(&self) -> Option<Exit> {
        match self.stage {
            Stage::Over(exit) => Some(exit),
            _ => None,
        }
    }

    /// The first signal that asks for the end begins the drain, and the next one ends Envoy at
    /// once.
    pub(super) fn signal(&mut self, signal: Signal) {
        let asks_for_end = matches!(signal, Signal::TERM | Signal::INT);
        match &self.child {
            _ if asks_for_end && self.stage == Stage::Serving => self.stage = Stage::Asked,
            Some(child) => child.signal(signal),
            None if asks_for_end => self.stage = Stage::Over(Exit::Child(code_of(signal.as_raw()))),
            None => {}
        }
    }

    /// Looks whether Envoy has ended.
    pub(super) fn reap(&mut self) {
        let code = self.reaper.reap(self.child.as_ref().map(Child::pid));
        if let Some(code) = code {
            self.stage = Stage::Over(Exit::Child(code));
        }
    }

    /// Whether the drain is to begin now. Also tells Envoy to end if it is time for that.
    pub(super) fn begins_drain(&mut self, now: Moment, absent_since: Option<Moment>) -> bool {
        let is_gone = absent_since.is_some_and(|since| now - since >= GONE_AFTER);
        match self.stage {
            Stage::Asked => {
                self.stage = Stage::Draining;
                return true;
            }
            // kubelet ends this program after the container of Envoy.
            Stage::Draining if self.child.is_none() && is_gone => {
                self.stage = Stage::Over(Exit::Fine);
            }
            Stage::Open { since, is_drained } => {
                let awaits_last_call = is_drained && self.has_latch && self.has_last_call;
                if !awaits_last_call || now - since >= PATIENCE {
                    self.end(now, is_drained);
                }
            }
            Stage::Told { since, is_killed: false } if now - since >= PATIENCE => {
                self.stage = Stage::Told { since, is_killed: true };
                self.tell(Signal::KILL);
            }
            _ => {}
        }
        false
    }

    fn tell(&self, signal: Signal) {
        if let Some(child) = &self.child {
            child.signal(signal);
        }
    }

    fn end(&mut self, now: Moment, is_drained: bool) {
        self.tell(Signal::TERM);
        self.stage = match (&self.child, is_drained) {
            (Some(_), _) => Stage::Told { since: now, is_killed: false },
            (None, true) => Stage::Over(Exit::Fine),
            (None, false) => Stage::Over(Exit::Negative),
        };
    }

    /// The last call was answered, so Envoy ends by itself.
    pub(super) fn last_call_has_passed(&mut self, now: Moment) {
        if let (Stage::Open { is_drained, .. }, None) = (self.stage, &self.child) {
            self.end(now, is_drained);
        }
    }

    /// The gate's answer to the request that began the drain.
    pub(super) fn drain_was_answered(&mut self, status: u16, body: &str, now: Moment) {
        if self.stage != Stage::Draining {
            return;
        }
        let body: Value = serde_json::from_str(body).unwrap_or_default();
        let state = body.get("state").and_then(Value::as_str);
        self.stage = match (status, state) {
            (200, Some(state)) => Stage::Open { since: now, is_drained: state == "drained" },
            // Envoy was started anew, and is to be drained as well.
            (_, Some("serving")) if body.get("holding").is_none() => Stage::Asked,
            _ => Stage::Serving,
        };
    }
}
