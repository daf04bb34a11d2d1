//! From what the sources say to what is done.

use super::source::{Says, agreed};
use super::{Policy, Scheme};
use crate::config::wire::{Decision, Fallback};
use crate::headers::Headers;

/// What became of a request; each has a counter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// Trusted, and `x-forwarded-proto` was something else.
    Overridden,
    /// Trusted, and `x-forwarded-proto` was already right.
    Kept,
    /// Trusted, but its headers contradict each other or make no sense.
    Conflicting,
    /// Trusted, but it sent none of the headers.
    Silent,
    /// Not trusted.
    Untrusted,
}

impl Verdict {
    /// All of them, in the order of their metrics.
    pub const ALL: [Self; 5] = [Self::Overridden, Self::Kept, Self::Conflicting, Self::Silent, Self::Untrusted];

    /// Its name in metrics.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Overridden => "overridden",
            Self::Kept => "kept",
            Self::Conflicting => "conflicting",
            Self::Silent => "silent",
            Self::Untrusted => "untrusted",
        }
    }
}

/// What was found out about a request's scheme.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Finding {
    /// A trusted peer says this.
    Known(Scheme),
    /// A trusted peer says nothing.
    Silent,
    /// A trusted peer contradicts itself.
    Conflicting,
    /// The peer is not trusted.
    Untrusted,
}

impl Policy {
    /// What a trusted peer's headers say.
    pub(crate) fn find(&self, headers: Headers<'_>) -> Finding {
        let mut said = self.sources.iter().map(|source| source.read(headers, &self.ports));
        let said = match self.decision {
            Decision::Agree => said.fold(Says::Nothing, agreed),
            Decision::First => said.find(|says| *says != Says::Nothing).unwrap_or(Says::Nothing),
        };
        match said {
            Says::Scheme(scheme) => Finding::Known(scheme),
            Says::Nothing => Finding::Silent,
            Says::Unclear => Finding::Conflicting,
        }
    }

    /// What `x-forwarded-proto` becomes of a trusted or untrusted peer's request on such a connection; `None` leaves it. For who decides in
    /// another way, and must come to the same.
    pub fn decide(&self, headers: Headers<'_>, trusted: bool, connection: Scheme) -> Option<Scheme> {
        let finding = if trusted { self.find(headers) } else { Finding::Untrusted };
        self.target(finding, || connection)
    }

    /// The scheme that `x-forwarded-proto` must tell; `None` leaves it. The connection's own scheme is only asked for when it is needed.
    pub(crate) fn target(&self, finding: Finding, connection: impl FnOnce() -> Scheme) -> Option<Scheme> {
        match finding {
            Finding::Known(scheme) => Some(scheme),
            Finding::Silent | Finding::Conflicting | Finding::Untrusted => match self.fallback {
                Fallback::Connection => Some(connection()),
                Fallback::Keep => None,
            },
        }
    }

    /// Whether an untrusted request's headers need not even be looked at.
    pub(crate) fn ignores_untrusted(&self) -> bool {
        self.fallback == Fallback::Keep && !self.write_scheme && !self.write_port && !self.strip.untrusted && !self.strip.twins
    }
}
