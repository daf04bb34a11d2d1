//! What a rule is: texts, and one function that looks at everything that was given.

use super::finding::{Found, Severity};
use super::given::Given;

/// One thing that can be wrong.
#[derive(Debug)]
pub struct Rule {
    /// Stable; codes are never used again for something else.
    pub code: &'static str,
    /// How bad it is.
    pub severity: Severity,
    /// What is wrong, in a few words.
    pub title: &'static str,
    /// What happens on a real mesh, and why.
    pub why: &'static str,
    /// The way out.
    pub fix: &'static str,
    pub(super) check: Check,
}

/// Looks at everything that was given, and says what it finds.
pub(super) type Check = for<'g> fn(&'g Given, &mut Found<'g>);

impl PartialEq for Rule {
    fn eq(&self, other: &Self) -> bool {
        self.code == other.code
    }
}

impl Eq for Rule {}
