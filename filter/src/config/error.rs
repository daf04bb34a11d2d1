//! What is wrong with a configuration: where, and what to do.

use std::fmt;

use crate::pieces::text;

/// One thing that is wrong.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// The field, such as `forwarded_proto.trust.peers[3]`; the position in the text where it is not even JSON.
    pub path: String,
    /// What is there, what is expected, and the way out.
    pub message: String,
}

impl Problem {
    /// A problem at a place.
    pub fn new(path: impl Into<String>, message: impl Into<String>) -> Self {
        Self { path: path.into(), message: message.into() }
    }

    /// The same problem, seen from one level further out.
    pub(crate) fn within(mut self, field: &str) -> Self {
        let joint = if self.path.is_empty() || self.path.starts_with('[') { "" } else { "." };
        self.path.insert_str(0, joint);
        self.path.insert_str(0, field);
        self
    }
}

impl Problem {
    /// In one line.
    pub fn to_text(&self) -> String {
        let path = if self.path.is_empty() { "configuration" } else { &self.path };
        text![path, ": ", self.message]
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.to_text())
    }
}

/// A configuration that is not taken, with everything that is known to be wrong with it. Never empty.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refused(pub Vec<Problem>);

impl From<Problem> for Refused {
    fn from(problem: Problem) -> Self {
        Self(vec![problem])
    }
}

impl Refused {
    /// All of them in one line.
    pub fn to_text(&self) -> String {
        let problems: Vec<String> = self.0.iter().map(Problem::to_text).collect();
        problems.join("; ")
    }
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.to_text())
    }
}

impl std::error::Error for Refused {}
