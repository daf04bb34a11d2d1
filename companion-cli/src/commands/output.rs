//! Output formats.

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

/// How the results for many pods are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum FleetOutput {
    /// Text for a terminal.
    #[value(alias = "table")]
    Text,
    /// Text with more columns; for many pods only.
    Wide,
    /// JSON.
    Json,
}
