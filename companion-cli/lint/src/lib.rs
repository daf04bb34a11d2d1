//! The rules of laststream: what loses streams in EnvoyFilters, pods, Helm values and plain Envoys.
//! The engine, `manifest-lint`, reads the files and has the general rules.
//!
//! | where | what |
//! |---|---|
//! | `wasm_filter`, `modules`, `users`, `plugin_configs` | laststream's filters, and their users |
//! | `assess` | the settings that decide what the next stop of a proxy cuts |
//! | `cluster`, `live` | a cluster's objects; the facts that are in none of them |
//! | `rules` | the rules, with their texts and examples |

#![allow(missing_docs, reason = "a comment says why: the names of an internal crate say what")]

mod assess;
pub mod cluster;
mod gate_programs;
#[cfg(test)]
mod linear;
pub mod live;
mod modules;
mod plugin_configs;
mod rules;
mod users;
mod wasm_filter;
#[cfg(test)]
mod words;

pub use assess::{Assessment, assess};
pub use manifest_lint::assume::Assume;
pub use manifest_lint::finding::{Finding, Rule, Severity};
pub use manifest_lint::sources::{LARGEST_FILE, SourceError, SourceFile, gather};
pub use manifest_lint::{change, crds, output, upgrade};

use std::sync::LazyLock;

use manifest_lint::Inputs;
use manifest_lint::read;
use manifest_lint::{Facts, Linter};

/// The linter with laststream's rules and facts.
pub static LINTER: LazyLock<Linter> = LazyLock::new(|| {
    Linter::new(Facts {
        program: "laststream",
        version: env!("CARGO_PKG_VERSION"),
        groups: rules::GROUPS,
        changes: rules::CHANGES,
        unread: &["LS809"],
        annotations: &[laststream_render::bootstrap::ANNOTATION],
        words: include_str!("words.txt"),
    })
});

/// All findings in files.
///
/// # Errors
/// The files hold more values than allowed.
pub fn lint(sources: Vec<SourceFile>, assume: Assume) -> Result<Vec<Finding>, SourceError> {
    LINTER.lint(sources, assume)
}

/// What is judged of inputs: the findings, and what the next stop of each proxy cuts.
#[derive(Debug, Default)]
pub struct Verdict {
    pub findings: Vec<Finding>,
    pub assessment: Assessment,
    /// The number of objects that rules read.
    pub objects: usize,
}

impl Verdict {
    /// Takes in the verdict on another part of a cluster.
    fn add(&mut self, other: Self) {
        self.findings.extend(other.findings);
        self.assessment.add(other.assessment);
    }
}

/// The verdict on files.
///
/// # Errors
/// The files hold more values than allowed.
pub fn judge(sources: Vec<SourceFile>, assume: Assume) -> Result<Verdict, SourceError> {
    let inputs = Inputs::read(&LINTER.program, sources, assume)?;
    Ok(Verdict {
        findings: LINTER.judged(&inputs, LINTER.usual()),
        assessment: assess::assessed(&inputs),
        objects: read::objects_of_rules(&inputs),
    })
}

/// All rules, in the order of their codes.
pub fn rules() -> impl Iterator<Item = &'static Rule> {
    LINTER.rules()
}
