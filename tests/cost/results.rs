//! All that was measured, as text and as files.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::machine::Machine;
use crate::targets::{self, Target};
use crate::{bodies, growth, instructions, latency, memory, plot, ticks};
use kit::{Context as _, Outcome};

/// What was not measured is empty.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Results {
    pub(crate) machine: Machine,
    pub(crate) instructions: Vec<instructions::Row>,
    pub(crate) targets: Vec<Target>,
    pub(crate) latency: Vec<latency::Row>,
    pub(crate) gate: Option<latency::Gate>,
    pub(crate) memory: Vec<memory::Row>,
    pub(crate) bodies: Vec<bodies::Row>,
    pub(crate) ticks: Vec<ticks::Row>,
    pub(crate) growth: Vec<growth::Row>,
}

impl Results {
    pub(crate) fn of(machine: Machine) -> Self {
        Self {
            machine,
            instructions: Vec::new(),
            targets: Vec::new(),
            latency: Vec::new(),
            gate: None,
            memory: Vec::new(),
            bodies: Vec::new(),
            ticks: Vec::new(),
            growth: Vec::new(),
        }
    }

    /// Compares what was measured with what it should be.
    pub(crate) fn judged(mut self) -> Self {
        self.targets = targets::reached(&self);
        self
    }

    /// Markdown.
    pub(crate) fn in_words(&self) -> String {
        let mut text = format!("{}.\n", self.machine.in_words());
        let mut part = |title: &str, about: &str, table: String| {
            let _ = write!(text, "\n## {title}\n\n{about}\n\n{table}");
        };
        if !self.instructions.is_empty() {
            part(
                "Instructions",
                "Of Envoy's worker, per request. The scheme is `x-forwarded-proto`; equal work is \
                    what the Lua for the same headers does.",
                instructions::table(&self.instructions),
            );
        }
        if !self.targets.is_empty() {
            part(
                "Targets",
                "What the project wants to be, over no filter.",
                targets::table(&self.targets),
            );
        }
        if !self.latency.is_empty() {
            part(
                "Time",
                "Multiples are of no filter's in the same round; the load and Envoy share the \
                    machine.",
                latency::table(&self.latency),
            );
        }
        if let Some(gate) = &self.gate {
            part(
                "The gate under load",
                "One worker for the gate and for the requests.",
                latency::about_gate(gate),
            );
        }
        if !self.memory.is_empty() {
            part("Memory, loading, configuring", "Over no filter.", memory::table(&self.memory));
        }
        if !self.bodies.is_empty() {
            part(
                "Bodies",
                "100 MB each way. Nothing enters the module for them; the kernel decides how they \
                    are cut.",
                bodies::table(&self.bodies),
            );
        }
        if !self.ticks.is_empty() {
            part(
                "Ticks",
                "What Envoy does without requests, all threads together.",
                ticks::table(&self.ticks),
            );
        }
        if !self.growth.is_empty() {
            part(
                "Growth",
                "The same request, with more and more of something.",
                growth::table(&self.growth),
            );
        }
        text
    }

    /// `results.md`, `results.json` and `instructions.svg`.
    pub(crate) fn write(&self, folder: &Path) -> Outcome {
        fs::create_dir_all(folder).with_context(|| folder.display().to_string())?;
        let write = |name: &str, text: String| {
            fs::write(folder.join(name), text).with_context(|| name.to_owned())
        };
        write("results.json", serde_json::to_string_pretty(self)? + "\n")?;
        let image = if self.instructions.is_empty() {
            ""
        } else {
            "![Instructions per request over no filter](instructions.svg)\n\n"
        };
        write(
            "results.md",
            format!(
                "# The last figures\n\n\
                 Written by `cargo bench`; [README.md](README.md) says what they mean.\n\n\
                 {image}{}",
                self.in_words()
            ),
        )?;
        if self.instructions.is_empty() {
            Ok(())
        } else {
            write("instructions.svg", plot::instructions(self))
        }
    }
}
