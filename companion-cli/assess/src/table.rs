//! Rows as the cells of a table, and as Markdown.

use std::fmt::Write as _;

use crate::moment::{Certainty, Moment};
use crate::row::{Assessment, Row};

/// The titles of the columns.
pub const TITLES: [&str; 9] = [
    "WORKLOAD",
    "PROXY",
    "PODS",
    "GRACE",
    "LONGEST REQUEST",
    "ENDED BY",
    "IDLE CONNECTION",
    "STREAM OF HOURS",
    "LASTSTREAM?",
];

/// The cells of a row.
#[must_use]
pub fn cells(row: &Row) -> [String; TITLES.len()] {
    let stop = &row.stop;
    [
        row.workload.to_string(),
        row.proxy_name(),
        row.pods.map(|pods| pods.to_string()).unwrap_or_default(),
        row.grace.map_or("not known".to_owned(), |grace| format!("{grace} s")),
        longest(stop.cut),
        stop.ended_by.clone(),
        stop.idle.clone(),
        stop.stream.clone(),
        format!("{}: {}", stop.verdict.name(), stop.why),
    ]
}

fn longest(cut: Moment) -> String {
    match cut.certainty {
        Certainty::Known => cut.time(),
        Certainty::IfDefaults => format!("{} *", cut.time()),
        Certainty::NotBefore => format!("≥ {}", cut.time()),
    }
}

/// A table for a ticket, and the last line below it.
#[must_use]
pub fn markdown(assessment: &Assessment) -> String {
    let titles = TITLES.map(str::to_lowercase);
    let mut out = format!("| {} |\n|{}\n", titles.join(" | "), "---|".repeat(titles.len()));
    for row in &assessment.rows {
        let cells = cells(row).map(|cell| cell.replace('|', "\\|").replace('\n', " "));
        let _ = writeln!(out, "| {} |", cells.join(" | ")); // cannot fail for a String
    }
    let _ = writeln!(out, "\n{}.", assessment.summary());
    out
}
