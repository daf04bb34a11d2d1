//! Forms of results.

use clap::ValueEnum;

/// How results are written.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum Output {
    /// Text for a terminal.
    #[default]
    Text,
    /// JSON.
    Json,
}
