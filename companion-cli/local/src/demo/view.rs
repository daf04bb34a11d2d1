//! The demo in a terminal: lines that change while it runs, or one line for each event; then a
//! table.

use std::fmt::Write as _;
use std::time::Instant;

use super::judge::{LaneResult, times_in_words};
use super::lane::Lane;
use super::record::{Event, LaneMark};
use super::times::Times;
use super::{Outcome, Row};

/// The number of columns that a terminal must have for lines that change.
pub const WIDTH: usize = 79;
const BAR: usize = 20;
const NAME: usize = 13;
const BOLD: &str = "\u{1b}[1m";
const DIM: &str = "\u{1b}[2m";
const RED: &str = "\u{1b}[31m";
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
    state_text: String,
}

impl View {
    /// A view before the lanes have begun.
    #[must_use]
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
            Some(LaneMark::ProxyEnded) => state.proxy_ended = Some(event.at),
            Some(LaneMark::Deleted) | None => {}
        }
        state.state_text = format!("{} {}", event.who, event.what);
    }

    /// The current lines. The first one moves the cursor back to the beginning of the lines before.
    #[must_use]
    pub fn frame(&mut self) -> Vec<String> {
        let Some(began) = self.began else { return Vec::new() };
        let now = began.elapsed().as_secs_f64();
        let back = if self.drawn { format!("\u{1b}[{}A", self.lanes.len()) } else { String::new() };
        self.drawn = true;
        let lines = self
            .lanes
            .iter()
            .map(|(lane, state)| format!("\u{1b}[2K{}", self.line(*lane, state, now)));
        lines
            .enumerate()
            .map(|(index, line)| if index == 0 { format!("{back}{line}") } else { line })
            .collect()
    }

    fn line(&self, lane: Lane, state: &State, now: f64) -> String {
        let cells = |at: f64| ((at / self.horizon * BAR as f64).round() as usize).min(BAR);
        let request = cells(state.answered.unwrap_or(now));
        let end = cells(state.proxy_ended.unwrap_or(now)).max(request);
        let colour = if state.answered.is_none() {
            CYAN
        } else if state.lost {
            RED
        } else {
            GREEN
        };
        let bar = format!(
            "{colour}{}{PLAIN}{DIM}{}{PLAIN}{}",
            "━".repeat(request),
            "─".repeat(end - request),
            " ".repeat(BAR - end)
        );
        let (colour, verdict) = match (state.answered, state.lost) {
            (Some(at), true) => (RED, format!("lost at {at:.1} s; ")),
            (Some(at), false) => (GREEN, format!("answered at {at:.1} s; ")),
            (None, _) => (PLAIN, format!("{now:.0} s; ")),
        };
        let state_text = state
            .proxy_ended
            .map_or_else(|| state.state_text.clone(), |at| format!("proxy ended at {at:.1} s"));
        let room = WIDTH - (NAME + BAR + 2) - verdict.chars().count().min(WIDTH / 2);
        let state_text: String = state_text.chars().take(room).collect();
        format!("{:<NAME$} {bar} {colour}{verdict}{PLAIN}{state_text}", lane.name())
    }
}

/// An event as a separate line.
#[must_use]
pub fn plain_line(lane: Lane, event: &Event) -> String {
    format!("{:>6.1} s  {:<NAME$} {}: {}", event.at, lane.name(), event.who, event.what)
}

/// The results as a table.
#[must_use]
pub fn table(outcome: &Outcome) -> String {
    let times = &outcome.times;
    let mut text = format!(
        "\n{BOLD}A request of {} s, its pod deleted after {} s, grace period {} s{}; Envoy \
            {}{PLAIN}\n\n",
        times.request.as_secs_f64(),
        times.delete_after.as_secs_f64(),
        times.grace_period.as_secs_f64(),
        if times.is_shortened() { " (all times shortened alike)" } else { "" },
        outcome.envoy
    );
    let _ = writeln!(
        text,
        "{DIM}{:<NAME$} client got       request    work   proxy ended  why{PLAIN}",
        "stopped by"
    );
    for lane in &outcome.lanes {
        text.push_str(&lane_line(lane));
    }
    let _ = writeln!(text, "\n{BOLD}What the app sees as x-forwarded-proto{PLAIN}\n");
    let _ = writeln!(text, "{DIM}{:<38} nothing  Lua    laststream{PLAIN}", "request");
    for row in &outcome.forwarded_proto.rows {
        text.push_str(&scheme_line(row));
    }
    text
}

fn lane_line(lane: &LaneResult) -> String {
    let got = lane.status.map_or("no answer".to_owned(), |status| status.to_string());
    let (colour, request) = if lane.lost { (RED, "lost") } else { (GREEN, "answered") };
    let work = times_in_words(lane.executions);
    let got = format!("{got} at {:.1} s", lane.answered);
    let ended = format!("{:.1} s", lane.proxy_ended);
    format!(
        "{:<NAME$} {got:<16} {colour}{request:<9}{PLAIN}  {work:<6} {ended:>11}  {}\n",
        lane.lane.name(),
        lane.why
    )
}

fn scheme_line(row: &Row) -> String {
    let cell = |seen: &str, width: usize| {
        let colour = if seen == row.truth { GREEN } else { RED };
        format!("{colour}{seen:<width$}{PLAIN}")
    };
    format!(
        "{:<38} {}  {}  {}\n",
        row.request,
        cell(&row.nothing, 7),
        cell(&row.lua, 5),
        cell(&row.laststream, 0)
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::demo::record::Actor;

    /// A line that wraps would push all lines down at each change.
    #[test]
    fn lines_that_change_fit_into_a_terminal() {
        let mut view = View::new(Times::usual());
        view.begin();
        for mark in [None, Some(LaneMark::Answered), Some(LaneMark::ProxyEnded)] {
            let event = Event { at: 23.04, who: Actor::Proxy, what: "ends: ".repeat(40), mark };
            view.happened(Lane::NetstatFixed, event);
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
