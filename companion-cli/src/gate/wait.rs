//! Waits until the gate is open. No other answer ends the wait, because a stop hook that returns
//! early cuts the streams in flight.

use std::thread;
use std::time::{Duration, Instant};

use super::bodies::Outcome;
use super::client::{Gate, GateAnswer};
use super::error::GateError;

/// The longest that one request is held: a VM that dies meanwhile is noticed then.
const HOLD: Duration = Duration::from_secs(5);
/// How long an answer may take, besides being held.
const GRACE: Duration = Duration::from_secs(1);
/// The shortest that is worth trying.
const SHORTEST: Duration = Duration::from_millis(100);
/// How long before the end the last question is asked.
const LAST: Duration = Duration::from_millis(200);

/// How long, and how.
#[derive(Debug, Clone, Copy)]
pub struct Wait {
    /// When it is over whatever the gate says.
    pub timeout: Duration,
    /// From one request to the next.
    pub interval: Duration,
    /// Whether the drain is begun, too.
    pub begin: bool,
}

/// The gate's last answer.
pub type WaitAnswer = Result<GateAnswer<Outcome>, GateError>;

/// How it ended.
#[derive(Debug)]
pub enum WaitEnd {
    /// The gate is open.
    Open(GateAnswer<Outcome>),
    /// The time was over first.
    Late(WaitAnswer),
}

/// Waits. `on_answer` is called with every answer that does not end the wait.
pub fn wait(gate: &Gate, wait: &Wait, on_answer: &mut dyn FnMut(&WaitAnswer)) -> WaitEnd {
    let until = Instant::now() + wait.timeout;
    let mut last = None;
    loop {
        let began = Instant::now();
        let left = until.saturating_duration_since(began).max(SHORTEST);
        let hold = if wait.begin { (left - SHORTEST).min(HOLD) } else { Duration::ZERO };
        // Without a hold of ours, the gate still waits for Envoy's answer before it says zero.
        let limit = (if wait.begin { hold + GRACE } else { HOLD }).min(left);
        let answer = if wait.begin { gate.prestop(hold, limit) } else { gate.ready(limit) };
        match answer {
            Ok(answer) if answer.status == 200 => return WaitEnd::Open(answer),
            answer => {
                on_answer(&answer);
                if left <= LAST {
                    // Cut short by the end of the wait, which says nothing of the gate.
                    let is_cut_short = answer.is_err() && limit < GRACE;
                    return WaitEnd::Late(last.filter(|_| is_cut_short).map_or(answer, Ok));
                }
                last = answer.ok();
                // The last question is shortly before the end, whatever the interval.
                let next = (began + wait.interval.max(SHORTEST)).min(until - LAST);
                thread::sleep(next.saturating_duration_since(Instant::now()));
            }
        }
    }
}
