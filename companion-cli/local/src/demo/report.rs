//! The report: one page of HTML that needs nothing else, with the terminal's tables and a bar for
//! each lane. No scripts, no network; light and dark.

use std::io;
use std::path::Path;

use super::client::StreamEnd;
use super::judge::{LaneResult, times_in_words};
use super::story::{Grade, sidecars, title};
use super::times::Times;
use super::{Outcome, Row};
use laststream_base::files::write_atomically;

/// The page, with names in double braces for what depends on the results.
const PAGE: &str = include_str!("report/page.html");
const STYLE: &str = include_str!("report/page.css");

/// Writes the report. After an error, an older file is unchanged.
pub fn write(file: &Path, outcome: &Outcome) -> io::Result<()> {
    write_atomically(&std::path::absolute(file)?, page(outcome).as_bytes())
}

fn page(outcome: &Outcome) -> String {
    let Outcome { times, lanes, forwarded_proto, surprises, envoy } = outcome;
    let ends = lanes.iter().map(|lane| lane.request.at.max(lane.envoy_ended));
    let scale = 100.0 / ends.fold(times.grace_ends().as_secs_f64(), f64::max);
    let shortened = if times.is_shortened() { " (all times are shortened alike)" } else { "" };
    let surprise =
        |text: &String| format!("<p class=\"bad\">Not as expected: {}</p>\n", escape(text));
    let values = [
        ("style", STYLE.to_owned()),
        ("title", title(lanes, times).to_owned()),
        ("request", times.request.as_secs_f64().to_string()),
        ("websocket", times.websocket.as_secs_f64().to_string()),
        ("delete", times.delete_after.as_secs_f64().to_string()),
        ("grace", times.grace_period.as_secs_f64().to_string()),
        ("shortened", shortened.to_owned()),
        ("ways", lanes.len().to_string()),
        ("envoy", escape(envoy)),
        ("surprises", surprises.iter().map(surprise).collect()),
        ("lanes", lanes.iter().map(|lane| lane_row(lane, times, scale)).collect()),
        ("sidecars", sidecars(lanes, times).iter().map(sidecar_row).collect()),
        ("schemes", forwarded_proto.rows.iter().map(scheme_row).collect()),
    ];
    let mut parts = PAGE.split("{{");
    let mut html = parts.next().unwrap_or_default().to_owned();
    for (name, text) in parts.filter_map(|part| part.split_once("}}")) {
        html.extend(values.iter().filter(|(known, _)| *known == name).map(|(_, it)| it.as_str()));
        html.push_str(text);
    }
    html
}

/// A lane. `scale` turns seconds into percents of the bar's width.
fn lane_row(lane: &LaneResult, times: &Times, scale: f64) -> String {
    let LaneResult { request, websocket, .. } = lane;
    let end: &str = lane.end_grade(times).into();
    let cut = if lane.end().contains("SIGKILL") { " cut" } else { "" };
    let grace_ends = lane.deleted + times.grace_period.as_secs_f64();
    let bar = |class: &str, at: f64| format!("<i class=\"{class}\" style=\"width:{at:.2}%\"></i>");
    let stream =
        |stream: &StreamEnd| bar(if stream.lost { "lost" } else { "whole" }, stream.at * scale);
    let cell = |grade: Grade, text: &str| {
        format!("<td class=\"{}\">{}", Into::<&str>::into(grade), escape(text))
    };
    format!(
        "<tr class=\"{end}\"><th>{}<small>{}</small><td><div class=\"track\">{}{}{}\
         <i class=\"mark\" style=\"left:{:.2}%\"></i><i class=\"mark\" style=\"left:{:.2}%\"></i>\
         </div>{}{}{}{}<td>{}\n",
        lane.lane.name(),
        escape(lane.about),
        stream(request),
        stream(websocket),
        bar(&format!("envoy{cut}"), lane.envoy_ended * scale),
        lane.deleted * scale,
        grace_ends * scale,
        cell(request.grade(), &request.cell()),
        cell(lane.work_grade(), &times_in_words(lane.executions)),
        cell(websocket.grade(), &websocket.cell()),
        cell(lane.end_grade(times), &lane.end()),
        escape(&lane.why)
    )
}

/// A kind of sidecar, whose result is computed.
fn sidecar_row((name, words): &(&str, String)) -> String {
    format!("<tr><th>{name}<td colspan=\"6\" class=\"soft\">computed: {}\n", escape(words))
}

fn scheme_row(row: &Row) -> String {
    let cell = |(_, seen): (&str, &str)| {
        let grade = if seen == row.truth { Grade::Good } else { Grade::Bad };
        format!("<td class=\"{}\">{}", Into::<&str>::into(grade), escape(seen))
    };
    let cells: String = row.columns().into_iter().map(cell).collect();
    format!("<tr><th>{}{cells}\n", escape(row.request))
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}
