//! Output formats.

use clap::ValueEnum;

/// How results are written. The values explain themselves, so that help lists them in one line.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub enum Output {
    #[default]
    Text,
    Json,
}
