//! The demo in a terminal: lines that change while it runs, or one line for each event; then a
//! table.

use std::fmt::Write as _;
use std::time::Instant;

use super::judge::{LaneResult, times_in_words};
use super::lane::Lane;
use super::record::{Event, LaneMark};
use super::story::{Grade, sidecars, title};
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
    /// The ends of the streams.
    ends: Vec<f64>,
    lost: usize,
    envoy_ended: Option<f64>,
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

    /// Starts the clock: the streams begin now.
    pub fn begin(&mut self) {
        self.began = Some(Instant::now());
    }

    /// Records an event of a lane.
    pub fn happened(&mut self, lane: Lane, event: Event) {
        let Some((_, state)) = self.lanes.iter_mut().find(|(other, _)| *other == lane) else {
            return;
        };
        match event.mark {
            Some(LaneMark::Answered | LaneMark::Closed) => state.ends.push(event.at),
            Some(LaneMark::Lost | LaneMark::Cut) => {
                state.ends.push(event.at);
                state.lost += 1;
            }
            Some(LaneMark::Killed) => state.killed = true,
            Some(LaneMark::EnvoyEnded) => state.envoy_ended = Some(event.at),
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
        let last = if let [one, other] = state.ends[..] { Some(one.max(other)) } else { None };
        let streams = cells(last.unwrap_or(now));
        let end = cells(state.envoy_ended.unwrap_or(now)).max(streams);
        let (colour, verdict) = match (last, state.lost) {
            (Some(at), 0) => (GREEN, format!("whole {at:.1} s, ")),
            (Some(_), lost) => (RED, format!("{lost} of 2 lost, ")),
            (None, 0) => (CYAN, format!("{now:.0} s, ")),
            (None, _) => (RED, format!("{now:.0} s, ")),
        };
        let bar = format!(
            "{colour}{}{PLAIN}{DIM}{}{PLAIN}{}",
            "━".repeat(streams),
            "─".repeat(end - streams),
            " ".repeat(BAR - end)
        );
        let (end_colour, state_text) = match (state.envoy_ended, state.killed) {
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
        "\n{BOLD}{}{PLAIN}\nA request of {} s, a WebSocket of {} s and an idle connection; the \
            gateway's pod is deleted after {} s,\nits grace period is {} s{}; Envoy {}\n\n",
        title(lanes, times),
        times.request.as_secs_f64(),
        times.websocket.as_secs_f64(),
        times.delete_after.as_secs_f64(),
        times.grace_period.as_secs_f64(),
        if times.is_shortened() { " (all times shortened alike)" } else { "" },
        outcome.envoy
    );
    let _ = writeln!(
        text,
        "{DIM}{:<NAME$}  request        work   WebSocket         Envoy ended      why{PLAIN}",
        "stopped by"
    );
    for lane in lanes {
        text.push_str(&lane_line(lane, times));
    }
    for (name, words) in sidecars(lanes, times) {
        let _ = writeln!(text, "{DIM}{name:<NAME$}  computed: {words}{PLAIN}");
    }
    let _ = writeln!(text, "\n{BOLD}What the app sees as x-forwarded-proto{PLAIN}\n");
    let _ = writeln!(text, "{DIM}{:<45}  nothing  Lua    laststream{PLAIN}", "request");
    for row in &outcome.forwarded_proto.rows {
        text.push_str(&scheme_line(row));
    }
    text
}

fn lane_line(lane: &LaneResult, times: &Times) -> String {
    let LaneResult { request, websocket, executions, .. } = lane;
    format!(
        "{:<NAME$}  {}  {}  {}  {}  {}\n",
        lane.lane.name(),
        cell(&request.cell(), 13, request.grade()),
        cell(&times_in_words(*executions), 5, lane.work_grade()),
        cell(&websocket.cell(), 16, websocket.grade()),
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
    use LaneMark::{Answered, Cut, EnvoyEnded, Killed};

    /// A line that wraps would push all lines down at each change.
    #[test]
    fn lines_that_change_fit_into_a_terminal() {
        let mut view = View::new(Times::usual());
        view.begin();
        for mark in [None, Some(Answered), Some(Cut), Some(Killed), Some(EnvoyEnded)] {
            let event = Event { at: 23.04, who: Actor::Gateway, what: "ends: ".repeat(40), mark };
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
