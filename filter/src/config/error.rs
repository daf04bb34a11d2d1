//! The problems of a configuration: the field, and what to do.

use core::fmt;

/// One problem.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// The field, such as `forwarded_proto.trust.peers[3]`; the position in the text if it is not
    /// JSON.
    pub path: String,
    /// The value, the expected value, and what to do.
    pub message: String,
}

/// A problem as the error of a reader. It is boxed, because many functions return it.
pub type Fault = Box<Problem>;

/// A problem at a path.
pub(crate) fn fault(path: &str, message: &str) -> Fault {
    Box::new(Problem { path: path.into(), message: message.into() })
}

impl Problem {
    /// A problem at a path.
    pub fn new(path: impl Into<String>, message: impl Into<String>) -> Self {
        Self { path: path.into(), message: message.into() }
    }

    /// Puts the field that contains the problem in front of its path.
    pub(crate) fn within(&mut self, field: &str) {
        let joint = if self.path.is_empty() || self.path.starts_with('[') { "" } else { "." };
        self.path = format!("{field}{joint}{}", self.path);
    }

    /// The problem as one line.
    pub fn to_text(&self) -> String {
        let path = if self.path.is_empty() { "configuration" } else { &self.path };
        format!("{path}: {}", self.message)
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.to_text())
    }
}

impl core::error::Error for Problem {}

/// All problems of a configuration that is refused. Never empty.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refused(pub Vec<Problem>);

impl From<Fault> for Refused {
    fn from(fault: Fault) -> Self {
        Self(vec![*fault])
    }
}

impl Refused {
    /// All problems as one line.
    pub fn to_text(&self) -> String {
        let mut text = String::new();
        for problem in &self.0 {
            let joint = if text.is_empty() { "" } else { "; " };
            text = format!("{text}{joint}{}", problem.to_text());
        }
        text
    }
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.to_text())
    }
}

impl core::error::Error for Refused {}
