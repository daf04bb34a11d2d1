//! The observations of the cases: printed while they run, written as a Markdown table if
//! `LASTSTREAM_MESH_TABLE` names a file, and into the pages of the results if `LASTSTREAM_BLESS` is
//! set.

use std::fs::{self, OpenOptions};
use std::io::Write as _;
use std::path::Path;
use std::sync::Mutex;

use kit::{Context as _, Outcome, locked, say};

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

impl Row {
    fn line(&self) -> String {
        let cell = |text: &str| text.replace('|', "\\|").replace('\n', "<br>");
        format!("| {} | {} | {} |\n", self.case, cell(&self.what), cell(&self.seen))
    }
}

/// Appends the rows of this level, in the order of their cases. One write has them all, because
/// other levels append to the same file.
pub(crate) fn end_table(has_passed: bool) -> Outcome {
    let mut rows = locked(&ROWS);
    rows.sort_by_key(|row| row.case); // rows of one case keep their order
    if has_passed && std::env::var_os("LASTSTREAM_BLESS").is_some() {
        ["tests/mesh/README.md", PAGE_OF_NODES]
            .into_iter()
            .try_for_each(|page| bless(page, &rows))?;
    }
    let Some(file) = std::env::var_os(TABLE) else { return Ok(()) };
    let lines: String = rows.iter().map(Row::line).collect();
    let mut table = OpenOptions::new().append(true).open(file)?;
    Ok(table.write_all(lines.as_bytes())?)
}

const PAGE_OF_NODES: &str = "tests/mesh/node/README.md";

/// Puts the rows of these cases in the place of those that the results of a page have.
fn bless(page: &str, rows: &[Row]) -> Outcome {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(page);
    let text = fs::read_to_string(&path)?;
    let results = "\n## Results\n";
    let at = text.find(results).with_context(|| format!("{page} has no results"))?;
    let (mut made, mut written) = (text[..at].to_owned(), Vec::new());
    for line in text[at..].split_inclusive('\n') {
        let case = line.split(' ').nth(1).unwrap_or_default();
        let own: Vec<&Row> = rows.iter().filter(|row| row.case == case).collect();
        if own.is_empty() || !line.starts_with("| ") {
            made.push_str(line);
        } else if !written.contains(&case) {
            written.push(case);
            own.into_iter().for_each(|row| made.push_str(&row.line()));
        }
    }
    Ok(fs::write(path, made)?)
}
