//! The command line.

use std::path::PathBuf;

use clap::{Parser, ValueEnum};
use laststream_local::envoy::{NEWEST, Version};

/// Measures what laststream costs on a real Envoy, beside no filter and beside Lua.
///
/// Without arguments it measures everything, which takes ten minutes or more, and writes table,
/// figures to docs/cost. With arguments it measures only the named parts, and prints the
/// results. Times depend on the machine's other load, instructions do not.
#[derive(Debug, Parser)]
#[command(bin_name = "cargo bench --")]
pub(crate) struct Arguments {
    /// Only variants with these names, or with one of these words in their name; the variants that
    /// they are compared with are measured, too.
    pub(crate) variants: Vec<String>,
    /// Only these parts, separated by commas or given several times.
    #[arg(long, value_name = "PART", num_args = 1, value_delimiter = ',')]
    only: Vec<Part>,
    /// Compares the instructions of a few variants with tests/cost/baseline.json; the exit code is
    /// 1 if any is more than 10 % more expensive.
    #[arg(long, conflicts_with_all = ["only", "variants", "output"])]
    pub(crate) check: bool,
    /// Writes table and figures to this folder.
    #[arg(long, value_name = "DIR")]
    output: Option<PathBuf>,
    /// Measures on this Envoy.
    #[arg(long, value_name = "VERSION", default_value_t = NEWEST)]
    pub(crate) envoy: Version,
    /// Cargo passes this flag to every bench.
    #[arg(long, hide = true)]
    bench: bool,
}

/// The parts of a measurement.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Part {
    /// Instructions per request, by callgrind: the figure that varies least between runs.
    Instructions,
    /// User CPU per request, requests per second, latency at a fixed load, and the gate's answers
    /// under full load.
    Latency,
    /// Memory per worker and per plugin; how long loading the module and configuring a plugin
    /// takes.
    Memory,
    /// Instructions of messages over WebSockets, with and without the frame filter.
    Sockets,
}

impl Arguments {
    pub(crate) fn wants(&self, part: Part) -> bool {
        self.only.is_empty() || self.only.contains(&part)
    }

    /// The folder for the results; `None` when only a part was measured and no folder is named.
    pub(crate) fn output(&self) -> Option<PathBuf> {
        let whole = self.only.is_empty() && self.variants.is_empty();
        self.output
            .clone()
            .or_else(|| whole.then(|| PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("docs/cost")))
    }
}
