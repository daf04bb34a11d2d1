//! Errors of a policy: the field, the problem, and what to do.

use std::fmt;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PolicyProblem {
    /// The field, such as `drain.deadline`; empty if the whole text is not a policy.
    pub path: String,
    /// The value, the expectation, and the fix.
    pub message: String,
    pub place: Option<(u64, u64)>,
}

impl PolicyProblem {
    pub fn new(path: impl Into<String>, message: impl Into<String>) -> Self {
        Self { path: path.into(), message: message.into(), place: None }
    }
}

impl fmt::Display for PolicyProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some((line, column)) = self.place {
            write!(f, "line {line}, column {column}: ")?;
        }
        if !self.path.is_empty() {
            write!(f, "{}: ", self.path)?;
        }
        f.write_str(&self.message)
    }
}

impl std::error::Error for PolicyProblem {}

/// An invalid policy, with all its problems. Never empty.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PolicyError(pub Vec<PolicyProblem>);

impl fmt::Display for PolicyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, problem) in self.0.iter().enumerate() {
            if index > 0 {
                f.write_str("; ")?;
            }
            problem.fmt(f)?;
        }
        Ok(())
    }
}

impl std::error::Error for PolicyError {}
