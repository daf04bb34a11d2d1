//! Redraws lines on a terminal.

use std::os::fd::AsFd;

use anstream::stream::RawStream;
use anstream::{AutoStream, ColorChoice};

use crate::commands::Printer;

/// The height of the last redraw.
pub(crate) struct Screen {
    height: usize,
    /// The option or the change that would show the lines that do not fit.
    way_out: &'static str,
}

impl Screen {
    pub(crate) fn new(way_out: &'static str) -> Self {
        Self { height: 0, way_out }
    }

    /// Replaces the last redraw by the lines of `text` that fit, and by the line `last`.
    pub(crate) fn draw(&mut self, text: &str, last: Option<&str>, printer: &Printer) {
        let lines = fitted(text, last, self.way_out, terminal(std::io::stdout()));
        printer.redraw(self.height, &lines);
        self.height = lines.len();
    }

    /// Makes the next redraw begin below the current line, because a message was printed there.
    pub(crate) fn forget(&mut self) {
        self.height = 0;
    }
}

/// Whether printed lines can be replaced. Without colours (NO_COLOR, or a terminal without them)
/// the printer removes all other control sequences, too. In a CI job it keeps them whatever TERM
/// says, because logs show colours; but a log has no cursor to move.
pub(crate) fn can_redraw(output: &impl RawStream) -> bool {
    output.is_terminal()
        && anstyle_query::term_supports_ansi_color()
        && AutoStream::choice(output) != ColorChoice::Never
}

/// The columns and rows of the terminal; 80 and 24 if they are not known.
pub(crate) fn terminal(output: impl AsFd) -> (usize, usize) {
    let size = rustix::termios::tcgetwinsize(output).ok();
    let or_usual =
        |size: Option<u16>, usual| size.filter(|size| *size > 0).map_or(usual, usize::from);
    (or_usual(size.map(|size| size.ws_col), 80), or_usual(size.map(|size| size.ws_row), 24))
}

/// The lines that fit on the terminal: a line that wraps or has scrolled away cannot be replaced.
fn fitted(
    text: &str,
    last: Option<&str>,
    way_out: &str,
    (columns, rows): (usize, usize),
) -> Vec<String> {
    let most = rows.max(8) - 3;
    let all = text.lines().count();
    let mut lines: Vec<String> = text.lines().take(most).map(str::to_owned).collect();
    if all > most {
        lines.push(format!("and {} more, which {way_out} shows", all - most));
    }
    lines.extend(last.map(str::to_owned));
    let width = columns.max(20) - 1;
    lines.iter().map(|line| line.chars().take(width).collect()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn redrawn_lines_fit_on_the_terminal() {
        let table: String = (0..30).map(|row| format!("{row} {}\n", "x".repeat(200))).collect();
        let lines = fitted(&table, Some("30 pods"), "`-l`", (80, 24));
        assert_eq!(lines.len(), 23);
        assert!(lines.iter().all(|line| line.chars().count() < 80), "{lines:?}");
        assert_eq!(lines[21], "and 9 more, which `-l` shows");
        assert_eq!(fitted("a\nb\n", Some("last"), "", (80, 24)), ["a", "b", "last"]);
        assert_eq!(fitted("a\nb\n", None, "", (80, 24)), ["a", "b"]);
    }
}
