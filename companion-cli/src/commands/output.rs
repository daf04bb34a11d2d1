//! The output formats of commands for many pods.

use clap::ValueEnum;

/// How the results for many pods are written; `wide` has more columns.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum FleetOutput {
    Text,
    Wide,
    Json,
}
