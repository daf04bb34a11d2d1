//! A copy of the project somewhere else, as far as building the module needs it.

use std::fs;
use std::path::Path;

use crate::{Context as _, Outcome, workspace};

/// Cargo wants the manifest of every member, and a source to each.
const PARTS: [&str; 11] = [
    "Cargo.toml",
    "Cargo.lock",
    "filter/Cargo.toml",
    "filter/src",
    "companion-cli/Cargo.toml",
    "companion-cli/src",
    "release/Cargo.toml",
    "release/src",
    "tests/kit/Cargo.toml",
    "tests/kit/src/lib.rs",
    "tests/main.rs",
];

pub fn copy_checkout(to: &Path) -> Outcome {
    PARTS.iter().try_for_each(|part| copy(&workspace().join(part), &to.join(part)))
}

/// A file, or a folder with all that is in it.
fn copy(from: &Path, to: &Path) -> Outcome {
    if !from.is_dir() {
        fs::create_dir_all(to.parent().context("a folder")?)?;
        fs::copy(from, to).with_context(|| from.display().to_string())?;
        return Ok(());
    }
    for entry in fs::read_dir(from)? {
        let name = entry?.file_name();
        copy(&from.join(&name), &to.join(&name))?;
    }
    Ok(())
}
