//! Waits until the gate counts no outbound stream.

use std::time::{Duration, Instant};

use laststream_gate::{GateError, Status};

use super::{ExecContext, ready};

const INTERVAL: Duration = Duration::from_millis(100);
/// The quiet period: nothing may be in flight, and nothing begin, for this time, because a client
/// that follows a redirect is between two streams.
const QUIET: Duration = Duration::from_millis(300);
/// The time after which a wait is reported.
const LONG: Duration = Duration::from_secs(1);
/// The scope of the calls that an app makes.
const SCOPE: &str = "outbound";

pub(super) enum Outbound {
    /// No outbound stream is in flight.
    Zero,
    /// The time is over, and streams may be in flight.
    Left(String),
    /// The gate does not answer.
    Unknown(String),
    Gone,
    Interrupted(String),
}

pub(super) fn wait(stage: &mut ExecContext<'_>, until: Instant) -> Outbound {
    let began = Instant::now();
    let mut quiet = QuietSince::default();
    let mut last_answer = began;
    let mut is_told = false;
    loop {
        let state = stage.gate.status().map(|answer| outbound_state(&answer.body));
        let why = match state {
            Ok(OutboundState::NoScope) => {
                let gate = stage.gate.address();
                let why = format!("the gate at {gate} does not wait for the scope `{SCOPE}`");
                return Outbound::Unknown(why);
            }
            Ok(OutboundState::Zero { begun }) => {
                last_answer = Instant::now();
                if quiet.since(begun) >= QUIET {
                    return Outbound::Zero;
                }
                "it is not known yet that nothing is in flight".to_owned()
            }
            Ok(OutboundState::Held(why)) => {
                last_answer = Instant::now();
                quiet = QuietSince::default();
                why
            }
            Err(error) if last_answer.elapsed() >= stage.plan.gate_timeout.duration() => {
                return gone_or_unknown(stage, &error);
            }
            Err(error) => {
                quiet = QuietSince::default();
                error.to_string()
            }
        };
        if Instant::now() >= until {
            return Outbound::Left(why);
        }
        if !is_told && began.elapsed() >= LONG {
            is_told = true;
            stage.report(&format!("waiting, before the proxy is ended: {why}"));
        }
        if stage.pause(INTERVAL).is_some() {
            return Outbound::Interrupted(why);
        }
    }
}

fn gone_or_unknown(stage: &mut ExecContext<'_>, error: &GateError) -> Outbound {
    if ready::is_gone(stage) {
        return Outbound::Gone;
    }
    Outbound::Unknown(format!("there is no gate at {}: {error}", stage.gate.address()))
}

enum OutboundState {
    Zero { begun: u64 },
    Held(String),
    NoScope,
}

fn outbound_state(status: &Status) -> OutboundState {
    let Some(scope) = status.scopes.iter().find(|scope| scope.scope == SCOPE) else {
        return OutboundState::NoScope;
    };
    match (scope.in_flight, status.count.as_str()) {
        (0, "exact" | "assumed") => OutboundState::Zero { begun: scope.begun },
        (0, count) => OutboundState::Held(format!(
            "no outbound stream is known to be in flight, but the gate's count is {count}"
        )),
        (1, _) => OutboundState::Held("1 outbound stream is in flight".into()),
        (count, _) => OutboundState::Held(format!("{count} outbound streams are in flight")),
    }
}

/// The beginning of the time in which nothing has been in flight and nothing began.
#[derive(Default)]
struct QuietSince(Option<(u64, Instant)>);

impl QuietSince {
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
