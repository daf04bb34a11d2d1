//! The observations of the cases: printed while they run, and written as a Markdown table if
//! `LASTSTREAM_MESH_TABLE` names a file.

use std::fs::{self, OpenOptions};
use std::io::Write as _;
use std::sync::Mutex;

use kit::{Outcome, locked, say};

const TABLE: &str = "LASTSTREAM_MESH_TABLE";

struct Row {
    case: &'static str,
    what: String,
    seen: String,
}

static ROWS: Mutex<Vec<Row>> = Mutex::new(Vec::new());

/// Adds a row to the table: the case's number, the action, the observation.
pub(crate) fn row(case: &'static str, what: impl Into<String>, seen: impl Into<String>) {
    let row = Row { case, what: what.into(), seen: without_places(&seen.into()) };
    say(&format!("{:<4} {} — {}", row.case, row.what, row.seen));
    locked(&ROWS).push(row);
}

/// Without the places in the source that errors name.
fn without_places(text: &str) -> String {
    let mut parts = text.split(" (tests/");
    let first = parts.next().unwrap_or_default().to_owned();
    parts.fold(first, |text, part| text + part.split_once(')').map_or("", |(_, rest)| rest))
}

/// Writes an empty table, for all levels.
pub(crate) fn begin_table() -> Outcome {
    if let Some(file) = std::env::var_os(TABLE) {
        fs::write(file, "| case | what | result |\n|---|---|---|\n")?;
    }
    Ok(())
}

/// Appends the rows of this level, in the order of their cases. One write has them all, because
/// other levels append to the same file.
pub(crate) fn end_table() -> Outcome {
    let Some(file) = std::env::var_os(TABLE) else { return Ok(()) };
    let mut rows = locked(&ROWS);
    rows.sort_by_key(|row| row.case); // rows of one case keep their order
    let cell = |text: &str| text.replace('|', "\\|").replace('\n', "<br>");
    let lines: String = rows
        .iter()
        .map(|row| format!("| {} | {} | {} |\n", row.case, cell(&row.what), cell(&row.seen)))
        .collect();
    let mut table = OpenOptions::new().append(true).open(file)?;
    Ok(table.write_all(lines.as_bytes())?)
}
