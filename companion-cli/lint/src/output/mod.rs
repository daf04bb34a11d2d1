//! The output formats of findings and rules.

mod json;
mod reference;
mod sarif;
mod text;

pub use json::json;
pub use reference::{explanation, list, list_json, reference};
pub use sarif::sarif;
pub use text::{summary, text};
