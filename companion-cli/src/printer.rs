//! The only place that prints: data to standard output, words for people to standard error.

use std::io::{self, Write};
use std::process::exit;

use laststream::progress::Progress;

/// Prints. Colours reach terminals only, and NO_COLOR is respected.
pub(crate) struct Printer;

impl Printer {
    /// What was asked for, as it is.
    pub(crate) fn data(&self, text: &str) {
        let mut out = anstream::stdout().lock();
        let written = if text.ends_with('\n') { write!(out, "{text}") } else { writeln!(out, "{text}") };
        match written.and_then(|()| out.flush()) {
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => exit(0), // the reader has enough
            Err(_) => exit(2),
            Ok(()) => {}
        }
    }

    /// A line for people.
    pub(crate) fn people(&self, line: &str) {
        let _ = writeln!(anstream::stderr().lock(), "{line}"); // nobody is there to be told that nobody is there
    }

    pub(crate) fn error(&self, error: &dyn std::fmt::Display) {
        self.people(&format!("\u{1b}[1;31merror\u{1b}[0m: {error}"));
    }

    pub(crate) fn warning(&self, warning: &dyn std::fmt::Display) {
        self.people(&format!("\u{1b}[1;33mwarning\u{1b}[0m: {warning}"));
    }
}

impl Progress for Printer {
    fn started(&self, what: &str) {
        self.people(what);
    }

    fn advanced(&self, _done: u64, _total: Option<u64>) {}

    fn finished(&self, what: &str) {
        self.people(what);
    }
}
