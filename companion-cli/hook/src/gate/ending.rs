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
/// The interval of looks at the last call.
const INTERVAL: Millis = Millis(50);

/// A request of the program to its own gate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Order {
    Drain,
    Status,
}

impl Order {
    pub(super) fn path(self) -> &'static str {
        match self {
            Self::Drain => "/prestop?wait",
            Self::Status => "/status",
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    Serving,
    /// A signal has asked for the drain.
    Asked,
    Draining,
    /// The gate is open since then; whether its drain reached zero, and when the gate is to be
    /// asked for the last call, unless it is being asked.
    Open {
        since: Moment,
        is_drained: bool,
        ask_at: Option<Moment>,
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
    /// Whether Envoy's runtime can be told to refuse requests; without that there is no last call.
    pub(super) has_latch: bool,
}

impl Ending {
    pub(super) fn new(child: Option<Child>) -> Self {
        Self { child, reaper: Reaper::default(), stage: Stage::Serving, has_latch: false }
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

    /// What the program is to ask its gate now. Also tells Envoy to end if it is time for that.
    pub(super) fn next_order(
        &mut self,
        now: Moment,
        absent_since: Option<Moment>,
    ) -> Option<Order> {
        let is_gone = absent_since.is_some_and(|since| now - since >= GONE_AFTER);
        match self.stage {
            Stage::Asked => {
                self.stage = Stage::Draining;
                Some(Order::Drain)
            }
            // kubelet ends this program after the container of Envoy.
            Stage::Draining if self.child.is_none() && is_gone => {
                self.stage = Stage::Over(Exit::Fine);
                None
            }
            Stage::Open { since, is_drained, .. }
                if !(is_drained && self.has_latch) || now - since >= PATIENCE =>
            {
                self.end(now, is_drained);
                None
            }
            Stage::Open { since, is_drained, ask_at: Some(at) } if now >= at => {
                self.stage = Stage::Open { since, is_drained, ask_at: None };
                Some(Order::Status)
            }
            Stage::Told { since, is_killed: false } if now - since >= PATIENCE => {
                self.stage = Stage::Told { since, is_killed: true };
                self.tell(Signal::KILL);
                None
            }
            _ => None,
        }
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

    /// The gate's answer to an order.
    pub(super) fn answer(&mut self, order: Order, status: u16, body: &str, now: Moment) {
        let body: Value = serde_json::from_str(body).unwrap_or_default();
        match (order, self.stage) {
            (Order::Drain, Stage::Draining) => self.end_drain(status, &body, now),
            (Order::Status, Stage::Open { since, is_drained, .. }) => {
                match body.get("finish").and_then(Value::as_str) {
                    None | Some("failed") => self.end(now, is_drained),
                    // Envoy ends by itself.
                    Some("done") if self.child.is_none() => self.end(now, is_drained),
                    Some(_) => {
                        let ask_at = Some(now + INTERVAL);
                        self.stage = Stage::Open { since, is_drained, ask_at };
                    }
                }
            }
            _ => {}
        }
    }

    fn end_drain(&mut self, status: u16, body: &Value, now: Moment) {
        let state = body.get("state").and_then(Value::as_str);
        self.stage = match (status, state) {
            (200, Some(state)) => {
                Stage::Open { since: now, is_drained: state == "drained", ask_at: Some(now) }
            }
            // Envoy was started anew, and is to be drained as well.
            (_, Some("serving")) if body.get("holding").is_none() => Stage::Asked,
            _ => Stage::Serving,
        };
    }
}
