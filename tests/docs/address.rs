//! The address of the project: `repository` in Cargo.toml, and its copies in other files.

use regex::Regex;

use super::{compare, links, read};
use kit::prelude::*;

pub(crate) const ADDRESS: &str = env!("CARGO_PKG_REPOSITORY");

/// The owner in the address may be another one now. `OWNER`, as the documents write it, is none.
pub(super) fn is_made_from_the_manifest() -> Outcome {
    let address = Regex::new(r"https://[\w.-]+/[a-z\d-]+/laststream\b").context("a pattern")?;
    let mut copies = 0;
    for file in links::files(&["md", "rs", "json", "yaml", "yml"])? {
        let mut text = read(&file)?;
        while let Some(other) = address.find_iter(&text).find(|copy| copy.as_str() != ADDRESS) {
            let part = other.range();
            compare(&file, "repository", text, part, ADDRESS)?;
            text = read(&file)?;
        }
        copies += address.find_iter(&text).count();
    }
    ensure!(copies > 15, "only {copies} copies of {ADDRESS}");
    Ok(())
}
