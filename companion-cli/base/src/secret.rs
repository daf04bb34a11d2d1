//! A text that must not be shown by accident.

use std::fmt;

/// A password or token. Only [`Secret::reveal`] shows it.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

impl Secret {
    /// Wraps a text, so that it is not shown.
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// The text itself, for the request that needs it.
    pub fn reveal(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(…)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn debug_output_does_not_show_the_secret() {
        assert_eq!(
            format!("{:?} {:#?}", Secret::new("hunter2"), Some(Secret::new("hunter2"))),
            "Secret(…) Some(\n    Secret(…),\n)"
        );
    }
}
