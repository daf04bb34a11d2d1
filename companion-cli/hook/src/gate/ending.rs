//! How the program ends: a signal begins the drain, and when that is over, Envoy ends that this
//! program has started, and then the program.

use laststream_drain::state::{Millis, Moment};
use rustix::process::Signal;
use serde_json::Value;

use super::configuration::Configuration;
use crate::Exit;
use crate::exec::{Child, Reaper, code_of};

/// How long Envoy may take to end, once it was told.
const PATIENCE: Millis = Millis(5_000);
/// How long no program must listen at Envoy's address until a drain is over that a signal began.
const GONE_AFTER: Millis = Millis(1_000);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    Serving,
    /// A signal has asked for the drain.
    Asked,
    Draining {
        since: Moment,
    },
    /// The gate is open; whether its drain reached zero. Its last call waits for the proof that no
    /// worker stands still behind the latch, until then.
    Open {
        until: Moment,
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
    deadline: Millis,
    /// Whether Envoy's runtime can be told to refuse requests; without that there is no last call.
    pub(super) has_latch: bool,
}

impl Ending {
    pub(super) fn new(child: Option<Child>, configuration: &Configuration) -> Self {
        Self {
            child,
            reaper: Reaper::default(),
            stage: Stage::Serving,
            has_last_call: configuration.has_last_call,
            deadline: Millis(configuration.deadline_ms),
            has_latch: false,
        }
    }

    pub(super) fn is_busy(&self) -> bool {
        matches!(
            self.stage,
            Stage::Asked | Stage::Draining { .. } | Stage::Open { .. } | Stage::Told { .. }
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
                self.stage = Stage::Draining { since: now };
                return true;
            }
            // kubelet ends this program after the container of Envoy.
            Stage::Draining { .. } if self.child.is_none() && is_gone => {
                self.stage = Stage::Over(Exit::Fine);
            }
            Stage::Open { until, is_drained } => {
                let awaits_last_call = is_drained && self.has_latch && self.has_last_call;
                if !awaits_last_call || now >= until {
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

    /// The gate tries it again for a while.
    pub(super) fn last_call_has_failed(&mut self, now: Moment) {
        if let Stage::Open { until, .. } = &mut self.stage {
            *until = (*until).min(now + PATIENCE);
        }
    }

    /// The gate's answer to the request that began the drain.
    pub(super) fn drain_was_answered(&mut self, status: u16, body: &str, now: Moment) {
        let Stage::Draining { since } = self.stage else { return };
        let until = (since + self.deadline).max(now + PATIENCE);
        let body: Value = serde_json::from_str(body).unwrap_or_default();
        let state = body.get("state").and_then(Value::as_str);
        self.stage = match (status, state) {
            (200, Some(state)) => Stage::Open { until, is_drained: state == "drained" },
            // Envoy was started anew, and is to be drained as well.
            (_, Some("serving")) if body.get("holding").is_none() => Stage::Asked,
            _ => Stage::Serving,
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An ending whose gate has opened at 1 s, after 100 ms of a drain with a deadline of 23 s.
    fn opened(has_latch: bool) -> Ending {
        let envoy = "127.0.0.1:9901".parse().unwrap();
        let configuration = Configuration::read(None, None, &envoy, None, true).unwrap();
        let mut ending = Ending::new(None, &configuration);
        ending.has_latch = has_latch;
        ending.signal(Signal::TERM);
        assert!(ending.begins_drain(Moment(900), None));
        ending.drain_was_answered(200, r#"{"state": "drained"}"#, Moment(1_000));
        ending
    }

    fn has_ended(ending: &mut Ending, now: u64) -> bool {
        ending.begins_drain(Moment(now), None);
        ending.exit().is_some()
    }

    #[test]
    fn behind_the_latch_the_last_call_is_waited_for_until_the_deadline() {
        assert!(has_ended(&mut opened(false), 1_000), "nothing is waited for");
        let mut ending = opened(true);
        assert!(!has_ended(&mut ending, 20_000), "a worker stands still");
        ending.last_call_has_passed(Moment(20_001));
        assert!(has_ended(&mut ending, 20_001));
        let mut ending = opened(true);
        assert!(!has_ended(&mut ending, 23_899) && has_ended(&mut ending, 23_900));
    }

    #[test]
    fn a_last_call_that_fails_is_tried_for_a_while() {
        let mut ending = opened(true);
        ending.last_call_has_failed(Moment(2_000));
        assert!(!has_ended(&mut ending, 6_999) && has_ended(&mut ending, 7_000));
    }
}
