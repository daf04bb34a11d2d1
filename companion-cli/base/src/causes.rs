//! An error and its sources in one line.

use std::error::Error;

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
