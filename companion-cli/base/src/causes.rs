//! Texts of errors: what failed, and why.

use std::error::Error;
use std::fmt::Display;

/// Says what failed, for errors that are only shown.
pub trait Context<T> {
    fn context(self, what: impl Display) -> Result<T, String>;
}

impl<T, E: Display> Context<T> for Result<T, E> {
    fn context(self, what: impl Display) -> Result<T, String> {
        self.map_err(|error| format!("{what}: {error}"))
    }
}

/// Joins the error and its sources, because the problem of a certificate is named only by the last
/// one.
pub fn with_sources(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        text = format!("{text}: {cause}");
        source = cause.source();
    }
    text
}
