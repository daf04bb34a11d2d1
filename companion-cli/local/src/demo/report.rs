//! The report: one page of HTML that needs nothing else, with a timeline for each lane. No scripts,
//! no network; light and dark.

use std::fmt::Write as _;
use std::io;
use std::path::{Path, PathBuf};

use super::judge::LaneResult;
use super::judge::times_in_words;
use super::record::{Actor, Event, Span};
use super::story::{Grade, native_remark, title};
use super::times::Times;
use super::{Outcome, Row};
use laststream_base::files::{self, write_atomically};

const STYLE: &str = include_str!("report/page.css");

/// Why the report cannot be written.
#[derive(Debug, thiserror::Error)]
#[error("cannot write the report `{}`: {why}", file.display())]
pub struct ReportError {
    file: PathBuf,
    why: String,
}

/// Checks whether a report can be written to this file, before the demo runs.
///
/// # Errors
/// The path is that of a folder, or its folder does not exist.
pub fn check_place(file: &Path) -> Result<(), ReportError> {
    files::check_place(file).map_err(|error| ReportError::of(file, &error))
}

/// Writes the report.
///
/// # Errors
/// The file cannot be written; an older file is unchanged.
pub fn write(file: &Path, outcome: &Outcome) -> Result<(), ReportError> {
    std::path::absolute(file)
        .and_then(|file| write_atomically(&file, page(outcome).as_bytes()))
        .map_err(|error| ReportError::of(file, &error))
}

impl ReportError {
    fn of(file: &Path, error: &io::Error) -> Self {
        Self { file: file.to_owned(), why: error.to_string() }
    }
}

/// The report as a page of HTML.
#[must_use]
pub fn page(outcome: &Outcome) -> String {
    let Outcome { times, lanes, .. } = outcome;
    let [request, delete, grace] =
        [times.request, times.delete_after, times.grace_period].map(|time| time.as_secs_f64());
    let shortened = if times.is_shortened() { " (all times are shortened alike)" } else { "" };
    let ways = lanes.len();
    let mut html = format!(
        "<!doctype html>\n<html lang=\"en\">\n<meta charset=\"utf-8\">\n<meta name=\"viewport\" \
            content=\"width=device-width, initial-scale=1\">\n\
         <meta name=\"color-scheme\" content=\"light dark\">\n<link rel=\"icon\" \
         href=\"data:,\">\n<title>laststream demo: {ways} ways to stop a pod</title>\n\
         <style>\n{STYLE}</style>\n<main>\n<h1>{}</h1>\n<p>{}</p>\n\
         <p class=\"soft\">The request takes {request} s, the pod is deleted after {delete} s and \
         has a grace period of {grace} s{shortened}. {ways} ways to stop it, each on real \
         Envoys ({}).</p>\n",
        title(lanes, times),
        native_remark(lanes, times).unwrap_or_default(),
        escape(&outcome.envoy)
    );
    surprises(&mut html, &outcome.surprises);
    html.push_str(KEY);
    let scale = Scale::of(outcome);
    head(&mut html, times, scale);
    for lane in lanes {
        article(&mut html, lane, times, scale);
    }
    schemes(&mut html, &outcome.forwarded_proto.rows);
    html.push_str(FOOTER);
    html
}

const KEY: &str = "<p class=\"key\"><span><i style=\"background:var(--request)\"></i>request</span>\
    <span><i style=\"background:var(--bad)\"></i>lost or killed</span><span><i \
    style=\"background:var(--app)\"></i>app at work</span>\
    <span><i style=\"background:var(--hook)\"></i>stop hook</span><span><i \
    style=\"background:var(--proxy)\"></i>Envoy</span></p>\n";

const FOOTER: &str = "<footer><p>Real: every Envoy, every connection, the module, the times. \
    Models of what was measured: the app, which answers as httpbin does; kubelet's rules, also for \
    native sidecars; what Istio's agent does at SIGTERM; stop hooks; the load balancer, which is a \
    connection from an address of its own. \
    Each sidecar also has one idle keep-alive connection.</p></footer>\n</main>\n</html>\n";

/// Converts seconds to the width of a timeline.
#[derive(Clone, Copy)]
struct Scale {
    end: f64,
}

impl Scale {
    fn of(outcome: &Outcome) -> Self {
        let spans = outcome.lanes.iter().flat_map(|lane| &lane.spans).map(|span| span.to);
        let grace_ends = outcome.times.grace_ends().as_secs_f64();
        Self { end: spans.fold(grace_ends, f64::max) * 1.02 }
    }

    fn percent(self, at: f64) -> f64 {
        (at / self.end * 100.0).clamp(0.0, 100.0)
    }

    /// The ticks of the axis, about five.
    fn ticks(self) -> impl Iterator<Item = f64> {
        let step = [0.5, 1.0, 2.0, 5.0, 10.0, 20.0, 60.0]
            .into_iter()
            .find(|step| self.end / step < 6.0)
            .unwrap_or(600.0);
        (0..).map(move |index| f64::from(index) * step).take_while(move |at| *at <= self.end)
    }
}

fn surprises(html: &mut String, surprises: &[String]) {
    if surprises.is_empty() {
        return;
    }
    html.push_str("<article class=\"surprise\"><h2 class=\"bad\">Not as expected</h2>\n");
    for surprise in surprises {
        let _ = writeln!(html, "<p>{}</p>", escape(surprise));
    }
    html.push_str("</article>\n");
}

/// The scale of all timelines, with the names of their marks.
fn head(html: &mut String, times: &Times, scale: Scale) {
    let [deleted, over] =
        [times.delete_after, times.grace_ends()].map(|at| scale.percent(at.as_secs_f64()));
    let _ = write!(
        html,
        "<div class=\"lane head\"><div class=\"timeline\"><span></span><div class=\"axis marks\">\
            <span style=\"left:{deleted:.2}%\">pod deleted</span>\
            <span style=\"left:{over:.2}%\">grace period over</span></div>\
            <span></span><div class=\"axis\">"
    );
    for at in scale.ticks() {
        let _ = write!(html, "<span style=\"left:{:.2}%\">{at} s</span>", scale.percent(at));
    }
    html.push_str("</div></div></div>\n");
}

fn article(html: &mut String, lane: &LaneResult, times: &Times, scale: Scale) {
    let request = match (lane.lost, lane.executions) {
        (true, _) => "lost".to_owned(),
        (false, 0 | 1) => "answered".to_owned(),
        (false, count) => format!("answered, done {}", times_in_words(count)),
    };
    let end = class(lane.end_grade(times));
    let _ = writeln!(
        html,
        "<article class=\"lane end-{end}\">\n<div><h2>{}</h2>\
            <p class=\"about\">{}</p></div>\n<div>",
        lane.lane.name(),
        escape(lane.about)
    );
    timeline(html, lane, times, scale);
    events(html, &lane.events);
    let _ = writeln!(
        html,
        "</div>\n<div><p class=\"{}\">{}, {request}</p><p class=\"{end}\">Envoy ended: {}</p>\
            <p class=\"small\">{}.</p></div>\n</article>",
        class(lane.request_grade()),
        lane.response(),
        lane.end(),
        escape(&capital(&lane.why))
    );
}

fn timeline(html: &mut String, lane: &LaneResult, times: &Times, scale: Scale) {
    html.push_str("<div class=\"timeline\">");
    for (who, name) in [
        (Actor::Client, "request"),
        (Actor::App, "app"),
        (Actor::AppHook, "app's hook"),
        (Actor::OtherApp, "2nd app"),
        (Actor::Hook, "hook"),
        (Actor::Proxy, "Envoy"),
    ] {
        let spans: Vec<&Span> = lane.spans.iter().filter(|span| span.who == who).collect();
        if !spans.is_empty() {
            let marks = [lane.deleted, lane.deleted + times.grace_period.as_secs_f64()];
            row(html, name, &spans, marks, scale);
        }
    }
    html.push_str("</div>\n");
}

fn class(grade: Grade) -> &'static str {
    match grade {
        Grade::Good => "good",
        Grade::Fair => "fair",
        Grade::Bad => "bad",
    }
}

fn row(html: &mut String, name: &str, spans: &[&Span], marks: [f64; 2], scale: Scale) {
    let _ = write!(html, "<span class=\"soft\">{name}</span><div class=\"track\">");
    for at in marks {
        let _ = write!(html, "<i class=\"mark\" style=\"left:{:.2}%\"></i>", scale.percent(at));
    }
    for span in spans {
        let left = scale.percent(span.from);
        let _ = write!(
            html,
            "<div class=\"bar {}{}\" style=\"left:{left:.2}%;width:{:.2}%\" title=\"{:.1} s to \
                {:.1} s: {}\"></div>",
            <&str>::from(span.who),
            if span.cut { " cut" } else { "" },
            scale.percent(span.to) - left,
            span.from,
            span.to,
            escape(&span.what)
        );
    }
    html.push_str("</div>\n");
}

fn events(html: &mut String, events: &[Event]) {
    let _ = writeln!(html, "<details><summary>{} events</summary><ol>", events.len());
    for event in events {
        let _ = writeln!(
            html,
            "<li><time>{:.2} s</time><span>{}: {}</span>",
            event.at,
            event.who,
            escape(&event.what)
        );
    }
    html.push_str("</ol></details>\n");
}

fn schemes(html: &mut String, rows: &[Row]) {
    html.push_str(
        "<h2>What the app sees as <code>x-forwarded-proto</code></h2>\n<div \
            class=\"table\"><table><thead><tr><th>request<th>nothing<th>Lua<th>laststream</thead>\n\
            <tbody>\n",
    );
    for row in rows {
        let _ = write!(html, "<tr><th>{}", escape(row.request));
        for (_, seen) in row.columns() {
            let grade = if seen == row.truth { Grade::Good } else { Grade::Bad };
            let _ = write!(html, "<td class=\"{}\">{}", class(grade), escape(seen));
        }
        html.push('\n');
    }
    html.push_str("</tbody></table></div>\n");
}

fn capital(text: &str) -> String {
    let mut characters = text.chars();
    characters
        .next()
        .map_or(String::new(), |first| first.to_uppercase().chain(characters).collect())
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}
