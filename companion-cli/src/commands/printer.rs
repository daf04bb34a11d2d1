//! The only place that prints: data to standard output, messages to standard error. Text from
//! images, modules, policies and registries passes through here, so no character in it can steer
//! the terminal.

use std::fmt::Display;
use std::io::{self, Write};
use std::process::exit;

use laststream::children;
use laststream::progress::Progress;
use laststream::visible;

use crate::commands::exit::Exit;
use crate::commands::output::Output;

/// Prints. Colours appear on terminals only, and NO_COLOR is respected.
pub(crate) struct Printer {
    /// How the command ends if its reader has enough.
    at_closed_pipe: Exit,
}

impl Default for Printer {
    fn default() -> Self {
        Self { at_closed_pipe: Exit::Fine }
    }
}

impl Printer {
    /// For a command whose exit code is a verdict, which is not reached if its reader has enough.
    pub(crate) fn of_verdicts() -> Self {
        Self { at_closed_pipe: Exit::Child(141) } // as a program that SIGPIPE ends
    }

    /// The result of a command as text, on standard output.
    pub(crate) fn stdout(&self, text: &str) {
        self.stdout_verbatim(&visible::text(text));
    }

    /// The same, with this program's own colours.
    pub(crate) fn coloured(&self, text: &str) {
        self.stdout_verbatim(&visible::coloured(text));
    }

    /// JSON, on standard output. Characters that steer a terminal are written as JSON escapes, so
    /// the value is the same.
    pub(crate) fn json(&self, json: &str) {
        self.stdout_verbatim(&visible::json(json));
    }

    /// A result in the form that was asked for.
    pub(crate) fn result(&self, output: Output, json: &str, text: &str) {
        match output {
            Output::Json => self.json(json),
            Output::Text => self.stdout(text),
        }
    }

    /// Replaces this many lines on the terminal.
    pub(crate) fn redraw(&self, before: usize, lines: &[String]) {
        let back = if before > 0 { format!("\u{1b}[{before}A") } else { String::new() };
        let lines: Vec<_> = lines.iter().map(|line| visible::line(line)).collect();
        self.stdout_verbatim(&format!("{back}\r\u{1b}[J{}\n", lines.join("\n")));
    }

    /// The content of a file, unchanged: a rendered manifest, a shell script.
    pub(crate) fn stdout_verbatim(&self, text: &str) {
        let mut out = anstream::stdout().lock();
        let written =
            if text.ends_with('\n') { write!(out, "{text}") } else { writeln!(out, "{text}") };
        let Err(error) = written.and_then(|()| out.flush()) else { return };
        children::end();
        // The reader has closed the pipe, as `head` does.
        if error.kind() == io::ErrorKind::BrokenPipe {
            exit(self.at_closed_pipe.code().into());
        }
        exit(self.failed(&format!("cannot write to standard output: {error}")).code().into())
    }

    /// A status line, on standard error.
    pub(crate) fn status_line(&self, line: &str) {
        self.print_message("", &line);
    }

    /// A line that this program composed, with its own colours and cursor movements.
    pub(crate) fn stderr_verbatim(&self, line: &str) {
        // there is no place to report that standard error is closed
        let _ = writeln!(anstream::stderr().lock(), "{line}");
    }

    pub(crate) fn error(&self, error: &dyn Display) {
        self.print_message("\u{1b}[1;31merror\u{1b}[0m: ", error);
    }

    /// The error that ends a command.
    pub(crate) fn failed(&self, error: &dyn Display) -> Exit {
        self.error(error);
        Exit::Failed
    }

    /// Arguments that do not go together, or mean nothing.
    pub(crate) fn misused(&self, error: &dyn Display) -> Exit {
        self.error(error);
        Exit::Usage
    }

    pub(crate) fn warning(&self, warning: &dyn Display) {
        self.print_message("\u{1b}[1;33mwarning\u{1b}[0m: ", warning);
    }

    /// Indents further lines, so that a line break in foreign text cannot begin what looks like a
    /// message of this program.
    fn print_message(&self, label: &str, message: &dyn Display) {
        let message = message.to_string().replace('\n', "\n  ");
        self.stderr_verbatim(&format!("{label}{}", visible::text(&message)));
    }
}

impl Progress for Printer {
    fn started(&self, what: &str) {
        self.status_line(what);
    }

    fn advanced(&self, _done: u64, _total: Option<u64>) {}

    fn finished(&self, what: &str) {
        self.status_line(what);
    }
}
