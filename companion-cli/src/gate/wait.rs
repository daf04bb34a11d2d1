//! Holds until the gate is open. Whatever else comes is no reason to go: stop hooks that return
//! early cut what is in flight.

use std::thread;
use std::time::{Duration, Instant};

use super::bodies::Outcome;
use super::client::{Answer, Gate};
use super::trouble::Trouble;

/// The longest that one request is held: a VM that dies meanwhile is noticed then.
const HOLD: Duration = Duration::from_secs(5);
/// How long an answer may take, besides being held.
const GRACE: Duration = Duration::from_secs(1);
/// The shortest that is worth trying.
const SHORTEST: Duration = Duration::from_millis(100);

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

/// What the gate said last.
pub type Heard = Result<Answer<Outcome>, Trouble>;

/// How it ended.
#[derive(Debug)]
pub enum Waited {
    /// The gate is open.
    Open(Answer<Outcome>),
    /// The time was over first.
    Late(Heard),
}

/// Waits. `news` hears every answer that does not end it.
pub fn wait(gate: &Gate, wait: &Wait, news: &mut dyn FnMut(&Heard)) -> Waited {
    let until = Instant::now() + wait.timeout;
    loop {
        let began = Instant::now();
        let left = until.saturating_duration_since(began).max(SHORTEST);
        let hold = if wait.begin { (left - SHORTEST).min(HOLD) } else { Duration::ZERO };
        let limit = (hold + GRACE).min(left);
        let heard = if wait.begin { gate.prestop(hold, limit) } else { gate.ready(limit) };
        match heard {
            Ok(answer) if answer.status == 200 => return Waited::Open(answer),
            heard => {
                news(&heard);
                let next = began + wait.interval.max(SHORTEST);
                if next >= until {
                    return Waited::Late(heard);
                }
                thread::sleep(next.saturating_duration_since(Instant::now()));
            }
        }
    }
}
