//! Waits until no outbound stream is in flight, by what the gate counts.

use std::time::{Duration, Instant};

use super::{Stage, ready};
use crate::gate::{Status, Trouble};

const INTERVAL: Duration = Duration::from_millis(100);
/// How long nothing may be in flight, and nothing begin: whoever follows a redirect is between two
/// streams.
const QUIET: Duration = Duration::from_millis(300);
/// Waiting for longer than this is worth a word.
const LONG: Duration = Duration::from_secs(1);
const SCOPE: &str = "outbound";

pub(super) enum Outbound {
    /// None is in flight.
    Zero,
    /// The time is over.
    Left(String),
    /// Nobody tells.
    Unknown(String),
    /// The proxy has ended.
    Gone,
    /// By a signal.
    Interrupted(String),
}

pub(super) fn wait(stage: &mut Stage<'_>, until: Instant) -> Outbound {
    let began = Instant::now();
    let mut quiet = Quiet::default();
    let mut heard = began;
    let mut is_told = false;
    loop {
        let why = match look(stage) {
            Ok(Look::NoScope) => {
                return Outbound::Unknown(format!(
                    "the gate at {} does not wait for the scope `{SCOPE}`",
                    stage.plan.gate.address()
                ));
            }
            Ok(Look::Zero { begun }) => {
                heard = Instant::now();
                if quiet.since(begun) >= QUIET {
                    return Outbound::Zero;
                }
                "it is not known yet that nothing is in flight".to_owned()
            }
            Ok(Look::Held(why)) => {
                heard = Instant::now();
                quiet = Quiet::default();
                why
            }
            Err(trouble) if heard.elapsed() >= stage.plan.gate_timeout => {
                if ready::has_gone(stage) {
                    return Outbound::Gone;
                }
                return Outbound::Unknown(format!(
                    "there is no gate at {}: {trouble}",
                    stage.plan.gate.address()
                ));
            }
            Err(trouble) => {
                quiet = Quiet::default();
                trouble.to_string()
            }
        };
        if Instant::now() >= until {
            return Outbound::Left(why);
        }
        if !is_told && began.elapsed() >= LONG {
            is_told = true;
            stage.say(&format!("waiting, before the proxy is ended: {why}"));
        }
        if stage.pause(INTERVAL).is_some() {
            return Outbound::Interrupted(why);
        }
    }
}

enum Look {
    Zero { begun: u64 },
    Held(String),
    NoScope,
}

fn look(stage: &Stage<'_>) -> Result<Look, Trouble> {
    stage.plan.gate.status().map(|answer| read(&answer.body))
}

fn read(status: &Status) -> Look {
    let Some(scope) = status.scopes.iter().find(|scope| scope.scope == SCOPE) else {
        return Look::NoScope;
    };
    match (scope.in_flight, status.count.as_str()) {
        (0, "exact" | "assumed") => Look::Zero { begun: scope.begun },
        (0, count) => Look::Held(format!(
            "no outbound stream is known to be in flight, but the gate's count is {count}"
        )),
        (1, _) => Look::Held("1 outbound stream is in flight".into()),
        (count, _) => Look::Held(format!("{count} outbound streams are in flight")),
    }
}

/// Since when nothing has been in flight and nothing began.
#[derive(Default)]
struct Quiet(Option<(u64, Instant)>);

impl Quiet {
    fn since(&mut self, begun: u64) -> Duration {
        match self.0 {
            Some((before, at)) if before == begun => at.elapsed(),
            _ => {
                self.0 = Some((begun, Instant::now()));
                Duration::ZERO
            }
        }
    }
}
