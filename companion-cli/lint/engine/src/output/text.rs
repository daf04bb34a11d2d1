//! Findings as text: the problem, the line with a mark under it, the fix. Colours are escape
//! sequences; the printer removes them if the output is not a terminal.

use std::fmt::Write as _;

use super::Checked;
use crate::{Finding, Severity};
use manifest_text::visible;

/// The most characters of a line that are shown.
const WIDEST: usize = 140;
/// The number of characters before the mark in a long line.
const BEFORE: usize = 40;

pub fn text(findings: &[Finding]) -> String {
    let mut out = String::new();
    for finding in findings {
        one(finding, &mut out);
    }
    out
}

fn one(finding: &Finding, out: &mut String) {
    let (bold, blue, off) = ("\u{1b}[1m", "\u{1b}[1;34m", "\u{1b}[0m");
    let colour = match finding.rule.severity {
        Severity::Error => "\u{1b}[1;31m",
        Severity::Warning => "\u{1b}[1;33m",
        Severity::Info => "\u{1b}[1;36m",
    };
    let gutter = " ".repeat(finding.line.to_string().len());
    let name = finding.rule.severity.name();
    // Writing to a string does not fail.
    let _ = writeln!(
        out,
        "{colour}{name}[{}]{off}{bold}: {}{off}",
        finding.rule.code, finding.rule.title
    );
    let path = if finding.path.is_empty() {
        String::new()
    } else {
        format!(" ({})", plain(&finding.path))
    };
    let file = plain(&finding.file);
    let place = match finding.object {
        Some(_) => file,
        None => format!("{file}:{}:{}", finding.line, finding.column),
    };
    let _ = writeln!(out, "{gutter}{blue}-->{off} {place}{path}");
    if let Some(line) = &finding.source_line {
        let (shown, indent, width) =
            window(line, finding.column as usize - 1, finding.width as usize);
        let _ = writeln!(out, "{gutter} {blue}|{off}");
        let _ = writeln!(out, "{blue}{} |{off} {}", finding.line, plain(&shown));
        let _ = writeln!(
            out,
            "{gutter} {blue}|{off} {}{colour}{}{off}",
            " ".repeat(indent),
            "^".repeat(width)
        );
    }
    let _ = writeln!(out, "{gutter} {blue}={off} {}", plain(&finding.message));
    let _ = writeln!(out, "{gutter} {blue}= fix:{off} {}\n", finding.rule.fix);
}

/// The part of a line around the mark, and the mark's column and width in it.
fn window(line: &str, column: usize, width: usize) -> (String, usize, usize) {
    let from = if column + width > WIDEST { column.saturating_sub(BEFORE) } else { 0 };
    let lead = if from > 0 { "…" } else { "" };
    let excerpt: String = line.chars().skip(from).take(WIDEST).collect();
    let indent = column - from + lead.chars().count();
    (format!("{lead}{excerpt}"), indent, width.min(WIDEST - (column - from).min(WIDEST - 1)).max(1))
}

/// Replaces tabs and control characters one for one, so that the mark stays under the marked text.
fn plain(text: &str) -> String {
    let plain = |character| match character {
        '\t' => ' ',
        _ if visible::steers(character) => '\u{fffd}',
        _ => character,
    };
    text.chars().map(plain).collect()
}

pub fn summary(findings: &[Finding], checked: Checked) -> String {
    let count =
        |severity| findings.iter().filter(|finding| finding.rule.severity == severity).count();
    let several =
        |count: usize, what: &str| format!("{count} {what}{}", if count == 1 { "" } else { "s" });
    let (errors, warnings, infos) =
        (count(Severity::Error), count(Severity::Warning), count(Severity::Info));
    let sources = match checked {
        Checked::Files(count) => several(count, "file"),
        Checked::ObjectsOfFiles { files, read } => {
            format!("{} with {} that rules read", several(files, "file"), several(read, "object"))
        }
        Checked::Objects(count) => several(count, "object"),
    };
    if findings.is_empty() {
        return format!("{sources}: nothing found");
    }
    let infos = if infos > 0 { format!(", {}", several(infos, "hint")) } else { String::new() };
    format!("{sources}: {}, {}{infos}", several(errors, "error"), several(warnings, "warning"))
}

#[cfg(test)]
mod tests {
    use super::window;

    #[test]
    fn long_lines_are_shown_around_the_mark() {
        let line = "x".repeat(300);
        let (shown, indent, width) = window(&line, 200, 50);
        assert_eq!((shown.chars().count(), indent, width), (141, 41, 50));
        let (shown, indent, width) = window("abc", 1, 1);
        assert_eq!((shown.as_str(), indent, width), ("abc", 1, 1));
    }
}
