//! The only place that prints: data to standard output, messages to standard error. Text from
//! images, modules, policies and registries passes through here, so no character in it can steer
//! the terminal.

use std::fmt::Display;
use std::io::{self, Write};
use std::process::exit;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use laststream_base::children;
use laststream_base::progress::Progress;
use laststream_base::visible;
use serde::Serialize;

use crate::{Exit, Failure, Output};

/// The time from one line on the progress of a download to the next.
const PROGRESS_INTERVAL: Duration = Duration::from_secs(10);

/// Prints. Colours appear on terminals only, and NO_COLOR is respected.
pub struct Printer {
    /// The exit code if the reader of the output closes the pipe.
    at_closed_pipe: Exit,
    /// The time when the last work began, or its last progress was printed.
    last_progress: Mutex<Option<Instant>>,
}

impl Default for Printer {
    fn default() -> Self {
        Self { at_closed_pipe: Exit::Fine, last_progress: Mutex::default() }
    }
}

impl Printer {
    /// For a command whose exit code is a verdict: if the reader closes the pipe, there is no
    /// verdict.
    pub fn of_verdicts() -> Self {
        // like a program that SIGPIPE ends
        Self { at_closed_pipe: Exit::Child(141), ..Self::default() }
    }

    /// The result of a command as text, on standard output.
    pub fn stdout(&self, text: &str) {
        self.stdout_verbatim(&visible::text(text));
    }

    /// The result of a command as text, with this program's own colours.
    pub fn coloured(&self, text: &str) {
        self.stdout_verbatim(&visible::coloured(text));
    }

    /// JSON, on standard output. Characters that steer a terminal are written as JSON escapes, so
    /// the value is the same.
    pub fn json(&self, json: &str) {
        self.stdout_verbatim(&visible::json(json));
    }

    /// A value as indented JSON, on standard output.
    pub fn value(&self, value: &impl Serialize) {
        self.json(&format!("{:#}", serde_json::json!(value)));
    }

    /// A result in the form that was asked for.
    pub fn result(&self, output: Output, value: &impl Serialize, text: &str) {
        match output {
            Output::Json => self.value(value),
            Output::Text => self.stdout(text),
        }
    }

    /// A result, or the JSON that another program has written.
    pub fn answer(&self, output: Output, json: &str, text: &str) {
        match output {
            Output::Json => self.json(json),
            Output::Text => self.stdout(text),
        }
    }

    /// Replaces the last `before` lines on the terminal.
    pub fn redraw(&self, before: usize, lines: &[String]) {
        let back = if before > 0 { format!("\u{1b}[{before}A") } else { String::new() };
        let lines: Vec<_> = lines.iter().map(|line| visible::line(line)).collect();
        self.stdout_verbatim(&format!("{back}\r\u{1b}[J{}\n", lines.join("\n")));
    }

    /// The content of a file, unchanged: a rendered manifest, a shell script.
    pub fn stdout_verbatim(&self, text: &str) {
        let mut out = anstream::stdout().lock();
        let result =
            if text.ends_with('\n') { write!(out, "{text}") } else { writeln!(out, "{text}") };
        self.ended(result.and_then(|()| out.flush()));
    }

    /// A binary file, unchanged.
    pub fn stdout_bytes(&self, bytes: &[u8]) {
        let mut out = io::stdout().lock();
        self.ended(out.write_all(bytes).and_then(|()| out.flush()));
    }

    /// Ends the process if standard output could not be written.
    fn ended(&self, written: io::Result<()>) {
        let Err(error) = written else { return };
        children::end();
        // The reader has closed the pipe, as `head` does.
        if error.kind() == io::ErrorKind::BrokenPipe {
            exit(self.at_closed_pipe.code().into());
        }
        self.error(&format!("cannot write to standard output: {error}"));
        exit(Exit::Failed.code().into())
    }

    /// A status line, on standard error.
    pub fn status_line(&self, line: &str) {
        self.print_message("", &line);
    }

    /// Asks a question on the terminal. Only `y` and `yes` confirm.
    pub fn confirm(&self, question: &str) -> bool {
        // there is no place to report that standard error is closed
        let _ = write!(anstream::stderr().lock(), "{} [y/N] ", visible::text(question));
        let mut answer = String::new();
        let is_read = io::stdin().read_line(&mut answer).is_ok();
        is_read && matches!(answer.trim().to_lowercase().as_str(), "y" | "yes")
    }

    /// A line that this program composed, with its own colours and cursor movements.
    pub fn stderr_verbatim(&self, line: &str) {
        // there is no place to report that standard error is closed
        let _ = writeln!(anstream::stderr().lock(), "{line}");
    }

    pub fn error(&self, error: &dyn Display) {
        self.print_message("\u{1b}[1;31merror\u{1b}[0m: ", error);
    }

    /// The error that ends a command.
    pub fn failure(&self, Failure { exit, text }: Failure) -> Exit {
        text.iter().for_each(|text| self.error(text));
        exit
    }

    pub fn warning(&self, warning: &dyn Display) {
        self.print_message("\u{1b}[1;33mwarning\u{1b}[0m: ", warning);
    }

    /// Indents all lines but the first, so that a line of foreign text cannot look like a message
    /// of this program.
    fn print_message(&self, label: &str, message: &dyn Display) {
        let message = message.to_string().replace('\n', "\n  ");
        self.stderr_verbatim(&format!("{label}{}", visible::text(&message)));
    }

    fn last_progress(&self) -> MutexGuard<'_, Option<Instant>> {
        self.last_progress.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether progress must be printed now. A short download prints none.
    fn is_progress_due(&self, now: Instant) -> bool {
        let mut last = self.last_progress();
        let is_due = now.duration_since(*last.get_or_insert(now)) >= PROGRESS_INTERVAL;
        if is_due {
            *last = Some(now);
        }
        is_due
    }
}

impl Progress for Printer {
    fn started(&self, what: &str) {
        *self.last_progress() = Some(Instant::now());
        self.status_line(what);
    }

    fn advanced(&self, done: u64, total: Option<u64>) {
        if self.is_progress_due(Instant::now()) {
            self.status_line(&megabytes(done, total));
        }
    }

    fn finished(&self, what: &str) {
        self.status_line(what);
    }
}

fn megabytes(done: u64, total: Option<u64>) -> String {
    const MEGABYTE: u64 = 1_000_000;
    let megabytes = done / MEGABYTE;
    match total {
        Some(total) => format!("{megabytes} of {} MB", total.div_ceil(MEGABYTE)),
        None => format!("{megabytes} MB"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn progress_is_printed_each_ten_seconds() {
        let (printer, began) = (Printer::default(), Instant::now());
        let is_due = |seconds| printer.is_progress_due(began + Duration::from_secs(seconds));
        assert_eq!([0, 9, 10, 11, 19, 20].map(is_due), [false, false, true, false, false, true]);
        assert_eq!(megabytes(34_900_000, Some(106_100_000)), "34 of 107 MB");
        assert_eq!(megabytes(34_900_000, None), "34 MB");
    }
}
