//! The demo in a terminal: lines that change while it runs, or one line for each event; then a
//! table.

use std::fmt::Write as _;
use std::time::Instant;

use super::judge::{LaneResult, times_in_words};
use super::lane::Lane;
use super::record::{Event, LaneMark};
use super::story::{Grade, native_remark, title};
use super::times::Times;
use super::{Outcome, Row};

/// The number of columns that a terminal must have for lines that change.
pub const WIDTH: usize = 79;
const BAR: usize = 20;
const NAME: usize = 24;
const BOLD: &str = "\u{1b}[1m";
const DIM: &str = "\u{1b}[2m";
const RED: &str = "\u{1b}[31m";
const YELLOW: &str = "\u{1b}[33m";
const GREEN: &str = "\u{1b}[32m";
const CYAN: &str = "\u{1b}[36m";
const PLAIN: &str = "\u{1b}[0m";

/// The lanes as they are now.
pub struct View {
    horizon: f64,
    began: Option<Instant>,
    lanes: Vec<(Lane, State)>,
    drawn: bool,
}

#[derive(Default)]
struct State {
    answered: Option<f64>,
    lost: bool,
    proxy_ended: Option<f64>,
    killed: bool,
    state_text: String,
}

impl View {
    /// A view before the lanes have begun.
    pub fn new(times: Times) -> Self {
        let horizon = (times.grace_ends() + times.kubelet).as_secs_f64();
        Self {
            horizon,
            began: None,
            lanes: Lane::ALL.iter().map(|lane| (*lane, State::default())).collect(),
            drawn: false,
        }
    }

    /// Starts the clock: the requests are sent now.
    pub fn begin(&mut self) {
        self.began = Some(Instant::now());
    }

    /// Records an event of a lane.
    pub fn happened(&mut self, lane: Lane, event: Event) {
        let Some((_, state)) = self.lanes.iter_mut().find(|(other, _)| *other == lane) else {
            return;
        };
        match event.mark {
            Some(LaneMark::Answered) => state.answered = Some(event.at),
            Some(LaneMark::Lost) => (state.answered, state.lost) = (Some(event.at), true),
            Some(LaneMark::Killed) => state.killed = true,
            Some(LaneMark::ProxyEnded) => state.proxy_ended = Some(event.at),
            Some(LaneMark::Deleted) | None => {}
        }
        state.state_text = format!("{} {}", event.who, event.what);
    }

    /// The current lines. The first one moves the cursor back to the beginning of the lines before.
    pub fn frame(&mut self) -> Vec<String> {
        let Some(began) = self.began else { return Vec::new() };
        let now = began.elapsed().as_secs_f64();
        let back = if self.drawn { format!("\u{1b}[{}A", self.lanes.len()) } else { String::new() };
        self.drawn = true;
        let line = |(lane, state): &(Lane, State)| self.line(*lane, state, now);
        let mut lines: Vec<_> =
            self.lanes.iter().map(|lane| format!("\u{1b}[2K{}", line(lane))).collect();
        lines.iter_mut().take(1).for_each(|first| first.insert_str(0, &back));
        lines
    }

    fn line(&self, lane: Lane, state: &State, now: f64) -> String {
        let cells = |at: f64| ((at / self.horizon * BAR as f64).round() as usize).min(BAR);
        let request = cells(state.answered.unwrap_or(now));
        let end = cells(state.proxy_ended.unwrap_or(now)).max(request);
        let (colour, verdict) = match (state.answered, state.lost) {
            (Some(at), true) => (RED, format!("lost {at:.1} s, ")),
            (Some(at), false) => (GREEN, format!("answered {at:.1} s, ")),
            (None, _) => (CYAN, format!("{now:.0} s, ")),
        };
        let bar = format!(
            "{colour}{}{PLAIN}{DIM}{}{PLAIN}{}",
            "━".repeat(request),
            "─".repeat(end - request),
            " ".repeat(BAR - end)
        );
        let (end_colour, state_text) = match (state.proxy_ended, state.killed) {
            (Some(at), true) => (RED, format!("SIGKILL {at:.1} s")),
            (Some(at), false) => (PLAIN, format!("ended {at:.1} s")),
            (None, _) => (PLAIN, state.state_text.clone()),
        };
        let room = WIDTH - (NAME + BAR + 2) - verdict.chars().count().min(WIDTH / 2);
        let state_text: String = state_text.chars().take(room).collect();
        format!(
            "{:<NAME$} {bar} {colour}{verdict}{PLAIN}{end_colour}{state_text}{PLAIN}",
            lane.name()
        )
    }
}

/// An event as a separate line.
pub fn plain_line(lane: Lane, event: &Event) -> String {
    format!("{:>6.1} s  {:<NAME$}  {}: {}", event.at, lane.name(), event.who, event.what)
}

pub fn table(outcome: &Outcome) -> String {
    let Outcome { times, lanes, .. } = outcome;
    let mut text = format!(
        "\n{BOLD}{}{PLAIN}\n{}A request of {} s, its pod deleted after {} s, grace period {} s{}; \
            Envoy {}\n\n",
        title(lanes, times),
        native_remark(lanes, times).map_or(String::new(), |remark| format!("{remark}\n")),
        times.request.as_secs_f64(),
        times.delete_after.as_secs_f64(),
        times.grace_period.as_secs_f64(),
        if times.is_shortened() { " (all times shortened alike)" } else { "" },
        outcome.envoy
    );
    let _ = writeln!(
        text,
        "{DIM}{:<NAME$}  client got     request   work   proxy ended      why{PLAIN}",
        "stopped by"
    );
    for lane in lanes {
        text.push_str(&lane_line(lane, times));
    }
    let _ = writeln!(text, "\n{BOLD}What the app sees as x-forwarded-proto{PLAIN}\n");
    let _ = writeln!(text, "{DIM}{:<45}  nothing  Lua    laststream{PLAIN}", "request");
    for row in &outcome.forwarded_proto.rows {
        text.push_str(&scheme_line(row));
    }
    text
}

fn lane_line(lane: &LaneResult, times: &Times) -> String {
    let request =
        if lane.lost { cell("lost", 8, Grade::Bad) } else { cell("answered", 8, Grade::Good) };
    let work = format!("{:<5}", times_in_words(lane.executions));
    format!(
        "{:<NAME$}  {:<13}  {request}  {}  {}  {}\n",
        lane.lane.name(),
        lane.response(),
        if lane.executions > 1 { cell(&work, 0, Grade::Fair) } else { work },
        cell(&lane.end(), 15, lane.end_grade(times)),
        lane.why
    )
}

fn cell(text: &str, width: usize, grade: Grade) -> String {
    let colour = match grade {
        Grade::Good => GREEN,
        Grade::Fair => YELLOW,
        Grade::Bad => RED,
    };
    format!("{colour}{text:<width$}{PLAIN}")
}

fn scheme_line(row: &Row) -> String {
    let cells = row.columns().into_iter().zip([7, 5, 0]).map(|((_, seen), width)| {
        cell(seen, width, if seen == row.truth { Grade::Good } else { Grade::Bad })
    });
    format!("{:<45}  {}\n", row.request, cells.collect::<Vec<_>>().join("  "))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::demo::record::Actor;
    use LaneMark::{Answered, Killed, ProxyEnded};

    /// A line that wraps would push all lines down at each change.
    #[test]
    fn lines_that_change_fit_into_a_terminal() {
        let mut view = View::new(Times::usual());
        view.begin();
        for mark in [None, Some(Answered), Some(Killed), Some(ProxyEnded)] {
            let event = Event { at: 23.04, who: Actor::Proxy, what: "ends: ".repeat(40), mark };
            view.happened(Lane::ExitOnZero, event);
            for line in view.frame() {
                let plain = line
                    .split('\u{1b}')
                    .map(|part| part.split_once(['m', 'K', 'A']).map_or(part, |(_, text)| text));
                let columns = plain.map(|part| part.chars().count()).sum::<usize>();
                assert!(columns <= WIDTH, "{columns}: {line:?}");
            }
        }
    }
}
