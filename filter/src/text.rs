//! A text to compare with.

/// A whole text, or the beginning of one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Text {
    /// The whole text.
    Exact(String),
    /// The beginning of the text.
    Prefix(String),
}

impl Text {
    /// Compares bytes.
    pub fn matches(&self, given: &[u8]) -> bool {
        match self {
            Self::Exact(whole) => given == whole.as_bytes(),
            Self::Prefix(start) => given.starts_with(start.as_bytes()),
        }
    }
}
