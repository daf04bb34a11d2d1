//! The report: one page of HTML that needs nothing else, with the terminal's tables and a bar for
//! each lane. No scripts, no network; light and dark.

use std::fmt::Write as _;
use std::io;
use std::path::Path;

use super::judge::{LaneResult, times_in_words};
use super::story::{Grade, native_remark, title};
use super::times::Times;
use super::{Outcome, Row};
use laststream_base::files::write_atomically;

const STYLE: &str = include_str!("report/page.css");

/// Writes the report. After an error, an older file is unchanged.
pub fn write(file: &Path, outcome: &Outcome) -> io::Result<()> {
    write_atomically(&std::path::absolute(file)?, page(outcome).as_bytes())
}

pub fn page(outcome: &Outcome) -> String {
    let Outcome { times, lanes, .. } = outcome;
    let [request, delete, grace] =
        [times.request, times.delete_after, times.grace_period].map(|time| time.as_secs_f64());
    let shortened = if times.is_shortened() { " (all times are shortened alike)" } else { "" };
    let mut html = format!(
        "<!doctype html>\n<html lang=\"en\">\n<meta charset=\"utf-8\">\n<meta name=\"viewport\" \
            content=\"width=device-width, initial-scale=1\">\n\
         <link rel=\"icon\" href=\"data:,\">\n<title>laststream demo</title>\n\
         <style>\n{STYLE}</style>\n<main>\n<h1>{}</h1>\n<p>{}</p>\n\
         <p class=\"soft\">The request takes {request} s, the pod is deleted after {delete} s and \
         has a grace period of {grace} s{shortened}. {} ways to stop it, each on real Envoys \
         ({}).</p>\n{}",
        title(lanes, times),
        native_remark(lanes, times).unwrap_or_default(),
        lanes.len(),
        escape(&outcome.envoy),
        KEY
    );
    for surprise in &outcome.surprises {
        let _ = writeln!(html, "<p class=\"bad\">Not as expected: {}</p>", escape(surprise));
    }
    html.push_str(LANES);
    let ends = lanes.iter().map(|lane| lane.answered.max(lane.proxy_ended));
    let scale = 100.0 / ends.fold(times.grace_ends().as_secs_f64(), f64::max);
    lanes.iter().for_each(|lane| lane_row(&mut html, lane, times, scale));
    html.push_str(SCHEMES);
    outcome.forwarded_proto.rows.iter().for_each(|row| scheme_row(&mut html, row));
    html.push_str(FOOTER);
    html
}

const KEY: &str = "<p class=\"key\"><i class=\"answered\"></i>request<i class=\"lost\"></i>lost \
    request<i class=\"proxy\"></i>Envoy<i class=\"cut\"></i>killed Envoy<i class=\"mark\"></i>pod \
    deleted, and its grace period over</p>\n";

const LANES: &str = "<div class=\"table\"><table><tr><th>stopped by<th class=\"track\">\
    <th>client got<th>work<th>proxy ended<th>why\n";

const SCHEMES: &str = "</table></div>\n<h2>What the app sees as <code>x-forwarded-proto</code>\
    </h2>\n<div class=\"table\"><table><tr><th>request<th>nothing<th>Lua<th>laststream\n";

const FOOTER: &str = "</table></div>\n<p class=\"soft\">Real: every Envoy, every connection, the \
    module, the times. Models of what was measured: the app, which answers as httpbin does; \
    kubelet's rules, also for native sidecars; what Istio's agent does at SIGTERM; stop hooks; the \
    load balancer, which is a connection from an address of its own. Each sidecar also has one \
    idle keep-alive connection.</p>\n</main>\n</html>\n";

/// A lane. `scale` turns seconds into percents of the bar's width.
fn lane_row(html: &mut String, lane: &LaneResult, times: &Times, scale: f64) {
    let [request, end] = [lane.request_grade(), lane.end_grade(times)].map(class);
    let fate = if lane.lost { "lost" } else { "answered" };
    let cut = if lane.end().contains("SIGKILL") { " cut" } else { "" };
    let grace_ends = lane.deleted + times.grace_period.as_secs_f64();
    let _ = writeln!(
        html,
        "<tr class=\"{end}\"><th>{}<small>{}</small><td><div class=\"track\">\
         <i class=\"{fate}\" style=\"width:{:.2}%\"></i>\
         <i class=\"proxy{cut}\" style=\"width:{:.2}%\"></i>\
         <i class=\"mark\" style=\"left:{:.2}%\"></i><i class=\"mark\" style=\"left:{:.2}%\"></i>\
         </div><td class=\"{request}\">{}, {fate}<td class=\"{request}\">{}\
         <td class=\"{end}\">{}<td>{}",
        lane.lane.name(),
        escape(lane.about),
        lane.answered * scale,
        lane.proxy_ended * scale,
        lane.deleted * scale,
        grace_ends * scale,
        lane.response(),
        times_in_words(lane.executions),
        lane.end(),
        escape(&lane.why)
    );
}

fn scheme_row(html: &mut String, row: &Row) {
    let _ = write!(html, "<tr><th>{}", escape(row.request));
    for (_, seen) in row.columns() {
        let grade = if seen == row.truth { Grade::Good } else { Grade::Bad };
        let _ = write!(html, "<td class=\"{}\">{}", class(grade), escape(seen));
    }
    html.push('\n');
}

fn class(grade: Grade) -> &'static str {
    match grade {
        Grade::Good => "good",
        Grade::Fair => "fair",
        Grade::Bad => "bad",
    }
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}
