//! The command line.

use clap::{Parser, ValueEnum};
use laststream::envoy::{NEWEST, Version};

/// Measures what laststream costs on a real Envoy, beside no filter and beside Lua.
#[derive(Debug, Parser)]
#[command(bin_name = "cargo bench --")]
pub(crate) struct Arguments {
    /// Only variants whose name contains one of these words; "no-filter" always comes along.
    pub(crate) variants: Vec<String>,
    /// Only these parts; may be given several times.
    #[arg(long, value_name = "PART", num_args = 1)]
    only: Vec<Part>,
    /// Measures on this Envoy.
    #[arg(long, value_name = "VERSION", default_value_t = NEWEST)]
    pub(crate) envoy: Version,
    /// Cargo says this to every bench.
    #[arg(long, hide = true)]
    bench: bool,
}

/// What can be measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Part {
    /// Instructions per request, by callgrind: the figure that repeats itself.
    Instructions,
}

impl Arguments {
    pub(crate) fn wants(&self, part: Part) -> bool {
        self.only.is_empty() || self.only.contains(&part)
    }
}
