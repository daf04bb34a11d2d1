//! The answer of the API server to an object, in words. Pure.

use serde::Serialize;

/// One object, and what the cluster says to it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Trial {
    pub object: String,
    #[serde(flatten)]
    pub verdict: Verdict,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "answer", rename_all = "snake_case")]
pub enum Verdict {
    Accepted,
    /// A webhook or an admission policy denies it.
    Denied {
        by: String,
        why: String,
    },
    /// The API server itself refuses it.
    Refused {
        why: String,
    },
    /// The cluster has no such kind, or not its namespace.
    Missing {
        why: String,
    },
    /// It was not asked, or the answer is not known.
    Unknown {
        why: String,
    },
}

/// How the API server names those who deny: what is before the name, behind it, and before the
/// reason.
const DENIALS: [[&str; 3]; 2] = [
    ["admission webhook \"", "\"", "denied the request: "],
    ["ValidatingAdmissionPolicy '", "'", "denied request: "],
];

impl Verdict {
    /// The verdict of an error with this status and message.
    pub(super) fn of_error(status: u16, message: &str) -> Self {
        let why = || message.to_owned();
        if let Some((by, why)) = DENIALS.iter().find_map(|denial| denied(message, denial)) {
            return Self::Denied { by, why };
        }
        match status {
            404 => Self::Missing { why: why() },
            401 | 403 | 429 | 500.. => Self::Unknown { why: why() },
            _ => Self::Refused { why: why() },
        }
    }

    /// Whether the object cannot be applied.
    pub fn is_negative(&self) -> bool {
        !matches!(self, Self::Accepted | Self::Unknown { .. })
    }

    pub fn words(&self) -> String {
        match self {
            Self::Accepted => "accepted".to_owned(),
            Self::Denied { by, why } => format!("denied by `{by}`: {why}"),
            Self::Refused { why } => format!("refused by the API server: {why}"),
            Self::Missing { why } => format!("not in this cluster: {why}"),
            Self::Unknown { why } => format!("not known: {why}"),
        }
    }
}

fn denied(message: &str, [before, behind, reason]: &[&str; 3]) -> Option<(String, String)> {
    let (_, rest) = message.split_once(before)?;
    let (by, rest) = rest.split_once(behind)?;
    let why = rest.split_once(reason).map_or(rest.trim(), |(_, why)| why);
    Some((by.to_owned(), why.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whoever_denies_is_named() {
        for (status, message, words) in [
            (
                403,
                "admission webhook \"gateway.example.com\" denied the request: field x",
                "denied by `gateway.example.com`: field x",
            ),
            (
                422,
                "configmaps \"a\" is forbidden: ValidatingAdmissionPolicy 'no-overlay' with \
                 binding 'all' denied request: failed expression: false",
                "denied by `no-overlay`: failed expression: false",
            ),
            (403, "User \"me\" cannot patch", "not known: User \"me\" cannot patch"),
            (404, "namespaces \"a\" not found", "not in this cluster: namespaces \"a\" not found"),
            (422, "spec: Invalid value", "refused by the API server: spec: Invalid value"),
        ] {
            assert_eq!(Verdict::of_error(status, message).words(), words);
        }
    }
}
