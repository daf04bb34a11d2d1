//! A time after the deletion of a pod, and how sure it is.

use std::fmt;

use serde::Serialize;

/// How sure a time is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Certainty {
    /// It follows from the settings.
    Known,
    /// It holds unless the mesh has other defaults than Istio's.
    IfDefaults,
    /// It is not earlier; the settings do not show how much later it is.
    NotBefore,
}

/// A time after the deletion of a pod.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Moment {
    pub millis: u64,
    pub certainty: Certainty,
}

impl Moment {
    pub(crate) fn known(millis: u64) -> Self {
        Self { millis, certainty: Certainty::Known }
    }

    pub(crate) fn not_before(millis: u64) -> Self {
        Self { millis, certainty: Certainty::NotBefore }
    }

    /// The earlier one. A later time that may be another one makes the earlier one less sure.
    pub(crate) fn or_earlier(self, other: Self) -> Self {
        let (first, last) = if self <= other { (self, other) } else { (other, self) };
        match last.certainty {
            Certainty::IfDefaults => {
                Self { certainty: first.certainty.max(last.certainty), ..first }
            }
            Certainty::Known | Certainty::NotBefore => first,
        }
    }

    pub(crate) fn plus(self, millis: u64) -> Self {
        Self { millis: self.millis.saturating_add(millis), ..self }
    }

    /// The time alone, such as `5 s`.
    #[must_use]
    pub fn time(self) -> String {
        if self.millis.is_multiple_of(1000) {
            format!("{} s", self.millis / 1000)
        } else {
            format!("{}.{} s", self.millis / 1000, self.millis % 1000 / 100)
        }
    }
}

impl fmt::Display for Moment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.certainty {
            Certainty::Known => f.write_str(&self.time()),
            Certainty::IfDefaults => write!(f, "{} if the mesh's defaults hold", self.time()),
            Certainty::NotBefore => write!(f, "not before {}", self.time()),
        }
    }
}
