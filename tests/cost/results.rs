//! All results, as text and as files.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use serde::Serialize;

use crate::machine::Machine;
use crate::targets::{self, Target};
use crate::{instructions, latency, memory, sockets};
use kit::{Context as _, Outcome};

/// All results. Parts that were not measured are empty.
#[derive(Default, Serialize)]
pub(crate) struct Results {
    pub(crate) machine: Machine,
    pub(crate) instructions: Vec<instructions::Row>,
    pub(crate) targets: Vec<Target>,
    pub(crate) latency: Vec<latency::Row>,
    pub(crate) gate: Option<latency::Gate>,
    pub(crate) memory: Vec<memory::Row>,
    pub(crate) sockets: Vec<sockets::Row>,
}

const ABOUT_INSTRUCTIONS: &str = "Of Envoy's worker, per request. The scheme is \
    `x-forwarded-proto`; equal work is what the Lua for the same headers does.";
const ABOUT_TARGETS: &str = "What the project wants to be, over no filter.";
const ABOUT_TIME: &str = "Multiples are of no filter's in the same round; the load and Envoy share \
    the machine.";
const ABOUT_GATE: &str = "One worker for the gate and for the requests.";
const ABOUT_MEMORY: &str = "Over no filter.";
const ABOUT_SOCKETS: &str = "A message is a chunk each way. Where the frame filter is off, Envoy \
    makes no context of it.";

impl Results {
    /// Adds the comparison with the targets.
    pub(crate) fn judged(mut self) -> Self {
        let Self { machine, instructions, memory, gate, .. } = &self;
        self.targets = targets::reached(instructions, memory, gate.as_ref(), machine.module_bytes);
        self
    }

    /// The results as Markdown.
    pub(crate) fn in_words(&self) -> String {
        let mut text = format!("{}.\n", self.machine.in_words());
        for (title, about, table) in [
            ("Instructions", ABOUT_INSTRUCTIONS, table(&self.instructions, instructions::table)),
            ("Targets", ABOUT_TARGETS, table(&self.targets, targets::table)),
            ("Time", ABOUT_TIME, table(&self.latency, latency::table)),
            ("The gate under load", ABOUT_GATE, self.gate.as_ref().map(latency::about_gate)),
            ("Memory, loading, configuring", ABOUT_MEMORY, table(&self.memory, memory::table)),
            ("WebSockets", ABOUT_SOCKETS, table(&self.sockets, sockets::table)),
        ] {
            if let Some(table) = table {
                let _ = write!(text, "\n## {title}\n\n{about}\n\n{table}");
            }
        }
        text
    }

    /// Writes `results.md` and `results.json`.
    pub(crate) fn write(&self, folder: &Path) -> Outcome {
        fs::create_dir_all(folder).with_context(|| folder.display().to_string())?;
        let write = |name: &str, text: String| {
            fs::write(folder.join(name), text).with_context(|| name.to_owned())
        };
        write("results.json", serde_json::to_string_pretty(self)? + "\n")?;
        write(
            "results.md",
            format!(
                "# The last figures\n\n\
                 Written by `cargo bench`; [README.md](README.md) says what they mean.\n\n\
                 {}",
                self.in_words()
            ),
        )
    }
}

/// The table of a part, if that was measured.
fn table<Row>(rows: &[Row], table: fn(&[Row]) -> String) -> Option<String> {
    (!rows.is_empty()).then(|| table(rows))
}
