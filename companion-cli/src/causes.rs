//! An error in one line, with what is behind it.

use std::error::Error;

/// The error and its sources; what is wrong with a certificate stands in the last of them.
pub(crate) fn with_sources(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        text = format!("{text}: {cause}");
        source = cause.source();
    }
    text
}
