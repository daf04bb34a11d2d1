//! Drains and ends a run. The gate decides when the drain is over, and reports why it waits.

use std::process::ExitStatus;
use std::time::{Duration, Instant};

use super::{PAUSE, Runner};
use laststream_gate::{DrainCommand, Signal, Status, text};
use laststream_policy::file::{Finish, LongLived};

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Drained {
    /// The gate let Envoy end: nothing was in flight then, except for long-lived streams that do
    /// not hold a drain.
    Empty {
        /// The number of these long-lived streams.
        exempt: u64,
    },
    /// Streams were cut, or may have been, because the wait ended early.
    Cut {
        /// The number of streams that held the drain at the last status.
        streams: u64,
        /// The oldest of them in words, as far as the gate lists them.
        names: String,
        why: &'static str,
    },
    /// Envoy ended by itself, or with an error.
    Ended(ExitStatus),
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Step {
    Waiting {
        reason: String,
        /// The number of streams that began after the drain had begun.
        late: u64,
        /// The time until the deadline, when the gate opens whatever happens.
        deadline_in: Option<Duration>,
    },
    /// The gate cannot be asked.
    Unknown(String),
}

/// The longest time that the gate may take after its own deadline; it evaluates ten times a second.
const GATE_OVERRUN: Duration = Duration::from_secs(3);
/// The longest time that Envoy may take to end, with nothing in flight.
const EXIT_TIMEOUT: Duration = Duration::from_secs(10);
/// The time after which the same reason is reported again.
const REPEAT_INTERVAL: Duration = Duration::from_secs(5);
/// The least time between two different reasons: requests come and go, and the gate counts how long
/// it has been quiet.
const MIN_REPORT_INTERVAL: Duration = Duration::from_secs(1);

impl Runner {
    /// Begins the drain, waits until the gate is open, and ends Envoy. The policy's deadline holds,
    /// also for a gate that does not answer.
    pub fn drain(&mut self, on_step: &dyn Fn(&Step)) -> Drained {
        let drained = self.wait(on_step);
        self.process.kill(); // does nothing if the gate has ended Envoy
        drained
    }

    fn wait(&mut self, on_step: &dyn Fn(&Step)) -> Drained {
        let began = Instant::now();
        let longest = self.current.policy.sizing.deadline.duration() + GATE_OVERRUN;
        let mut last_step = LastStep::default();
        let mut has_begun = false;
        let (mut streams, mut exempt) = (0, 0);
        let ending = |end: ExitStatus, is_by_gate, exempt| {
            let is_empty = is_by_gate && end.success();
            if is_empty { Drained::Empty { exempt } } else { Drained::Ended(end) }
        };
        loop {
            if let Some(end) = self.ended() {
                let quits = self.current.policy.finish == Finish::Quit;
                return ending(end, quits && has_begun && streams == 0, exempt);
            }
            if self.stop.is_forced() {
                return self.cut(streams, "interrupted by a second request to stop");
            }
            has_begun = has_begun || self.gate.command(&DrainCommand::Begin).is_ok();
            match self.gate.status() {
                Ok(answer) => {
                    let status = answer.body;
                    streams = status.holding;
                    exempt = self.exempt_streams(&status);
                    if let Some(why) = cut_by(&status) {
                        return self.cut(streams, why);
                    }
                    if let Some(end) = self.end_by_gate(&status) {
                        return ending(end, true, exempt);
                    }
                    last_step.report_if_new(waiting(status), on_step);
                }
                Err(error) => last_step.report_if_new(Step::Unknown(error.to_string()), on_step),
            }
            if began.elapsed() > longest {
                return self.cut(streams, "the deadline is over, and the gate did not open");
            }
            std::thread::sleep(PAUSE);
        }
    }

    /// Envoy still runs, so its gate can list what is cut.
    fn cut(&self, streams: u64, why: &'static str) -> Drained {
        let listed = (streams > 0).then(|| self.gate.streams(text::MOST_NAMED));
        let listed = listed.and_then(Result::ok).map(|answer| answer.body.streams);
        let names = text::oldest(&listed.unwrap_or_default(), streams);
        Drained::Cut { streams, names, why }
    }

    /// Ends Envoy through the gate, if the gate is drained; the result is Envoy's exit status. A
    /// status is old when it is read, and a stream may have begun since. At this request the gate
    /// evaluates again, and lets no stream begin meanwhile.
    fn end_by_gate(&mut self, status: &Status) -> Option<ExitStatus> {
        let is_drained = status.state == "drained" && status.holding == 0;
        if !is_drained || !matches!(self.gate.quit(), Ok(Signal::Passed)) {
            return None;
        }
        let until = Instant::now() + EXIT_TIMEOUT;
        loop {
            let end = self.ended();
            if end.is_some() || Instant::now() > until {
                return end;
            }
            std::thread::sleep(PAUSE);
        }
    }

    /// The streams in flight that do not hold the drain.
    fn exempt_streams(&self, status: &Status) -> u64 {
        let is_exempt = self.current.policy.long_lived == LongLived::Exempt;
        let scopes = status.scopes.iter().filter(|_| is_exempt);
        scopes.map(|scope| scope.long_lived).sum()
    }
}

/// Why the gate is open although streams may be in flight.
fn cut_by(status: &Status) -> Option<&'static str> {
    match status.state.as_str() {
        "expired" => Some("the deadline of the policy is over"),
        "forced" => Some("the gate was forced"),
        _ => None,
    }
}

/// A step with the gate's own reason.
fn waiting(status: Status) -> Step {
    Step::Waiting {
        reason: status.reason,
        late: status.late,
        deadline_in: status.deadline_in_ms.map(Duration::from_millis),
    }
}

#[derive(Default)]
struct LastStep(Option<(String, Instant)>);

impl LastStep {
    fn report_if_new(&mut self, step: Step, on_step: &dyn Fn(&Step)) {
        let words = match &step {
            Step::Waiting { reason, .. } => reason.clone(),
            Step::Unknown(error) => error.clone(),
        };
        let is_too_soon = self.0.as_ref().is_some_and(|(last, when)| {
            let interval = if *last == words { REPEAT_INTERVAL } else { MIN_REPORT_INTERVAL };
            when.elapsed() < interval
        });
        if is_too_soon {
            return;
        }
        on_step(&step);
        self.0 = Some((words, Instant::now()));
    }
}
