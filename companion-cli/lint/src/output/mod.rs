//! The output formats of findings and rules.

mod json;
mod reference;
mod sarif;
mod text;

pub use json::json;
pub use reference::{explanation, list, list_json, reference};
pub use sarif::sarif;
pub use text::{summary, text};

/// The URL of a rule's explanation.
fn help_uri(code: &str) -> String {
    format!(
        "{}/blob/main/companion-cli/LINT.md#{}",
        env!("CARGO_PKG_REPOSITORY"),
        code.to_ascii_lowercase()
    )
}
