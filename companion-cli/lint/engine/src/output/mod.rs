//! The output formats of findings and rules.

mod cut;
mod json;
mod reference;
mod sarif;
mod text;

/// The number of sources that were checked.
#[derive(Debug, Clone, Copy)]
pub enum Checked {
    /// Files.
    Files(usize),
    /// Files, and the objects in them that rules read.
    ObjectsOfFiles { files: usize, read: usize },
    /// Objects of a cluster.
    Objects(usize),
}

pub use cut::{cut, cut_summary};
pub use json::{document, json};
pub use reference::{explanation, list, list_json};
pub use sarif::sarif;
pub use text::{summary, text};
