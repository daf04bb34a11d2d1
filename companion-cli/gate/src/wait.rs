//! Waits until the gate is open. No other answer ends the wait, because a stop hook that returns
//! early cuts the streams in flight.

use std::thread;
use std::time::{Duration, Instant};

use super::answer::GateAnswer;
use super::bodies::Outcome;
use super::client::GateClient;
use super::error::GateError;

/// The longest time that the gate holds one request. A VM that dies meanwhile is noticed after it.
const HOLD: Duration = Duration::from_secs(5);
/// The time limit for an answer, in addition to the hold.
const GRACE: Duration = Duration::from_secs(1);
/// The shortest time limit that a request gets.
const SHORTEST: Duration = Duration::from_millis(100);
/// The time before the end of the wait at which the last request is sent.
const LAST: Duration = Duration::from_millis(200);

#[derive(Debug, Clone, Copy)]
pub struct Wait {
    /// The time after which the wait is over, whatever the gate answers. Zero asks once.
    pub timeout: Duration,
    /// The time from one request to the next.
    pub interval: Duration,
    /// Whether the wait also begins the drain.
    pub begin: bool,
}

pub type WaitAnswer = Result<GateAnswer<Outcome>, GateError>;

#[derive(Debug)]
pub enum WaitEnd {
    Open(GateAnswer<Outcome>),
    Late(WaitAnswer),
}

/// Waits until the gate is open or the time is over. `on_answer` is called with every answer after
/// which the gate is asked again.
pub fn wait(gate: &GateClient, wait: &Wait, on_answer: &mut dyn FnMut(&WaitAnswer)) -> WaitEnd {
    let until = Instant::now() + wait.timeout;
    // One request alone gets the time that an answer may take.
    let shortest = if wait.timeout.is_zero() { HOLD } else { SHORTEST };
    let mut last = None;
    loop {
        let began = Instant::now();
        let time_left = until.saturating_duration_since(began);
        let is_last = time_left <= LAST;
        let hold =
            if wait.begin { time_left.saturating_sub(SHORTEST).min(HOLD) } else { Duration::ZERO };
        // Without a hold of ours, the gate still waits for Envoy's answer before it reports zero.
        let limit = (if wait.begin { hold + GRACE } else { HOLD }).min(time_left.max(shortest));
        let answer = if wait.begin { gate.prestop(hold, limit) } else { gate.ready(limit) };
        match answer {
            Ok(answer) if answer.status == 200 => return WaitEnd::Open(answer),
            answer if is_last => {
                // An error that the end of the wait caused does not describe the gate.
                let is_cut_short = answer.is_err() && limit < GRACE;
                return WaitEnd::Late(last.filter(|_| is_cut_short).map_or(answer, Ok));
            }
            answer => {
                on_answer(&answer);
                last = answer.ok();
                // The last request is sent shortly before the end, whatever the interval.
                let next = (began + wait.interval.max(SHORTEST)).min(until - LAST);
                thread::sleep(next.saturating_duration_since(Instant::now()));
            }
        }
    }
}
