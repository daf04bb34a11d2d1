//! Output formats.

use clap::ValueEnum;

/// How results are written. The values explain themselves, so that help lists them in one line.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum Output {
    #[default]
    Text,
    Json,
}

/// How the results for many pods are written; `wide` has more columns.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum FleetOutput {
    Text,
    Wide,
    Json,
}
