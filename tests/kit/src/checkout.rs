//! A copy of those parts of the project that building the module needs.

use std::fs;
use std::path::Path;

use crate::{Context as _, Outcome, workspace};

/// Cargo needs the manifest of every member of the workspace, and a source file for each.
const PARTS: [&str; 13] = [
    "Cargo.toml",
    "Cargo.lock",
    "filter/Cargo.toml",
    "filter/src",
    "filter/drain/Cargo.toml",
    "filter/drain/src",
    "companion-cli/Cargo.toml",
    "companion-cli/src",
    "release/Cargo.toml",
    "release/src",
    "tests/kit/Cargo.toml",
    "tests/kit/src/lib.rs",
    "tests/main.rs",
];

pub fn copy_checkout(to: &Path) -> Outcome {
    let mut parts: Vec<String> = PARTS.map(String::from).into();
    for entry in fs::read_dir(workspace().join("companion-cli"))? {
        let entry = entry?;
        if entry.path().join("Cargo.toml").exists() {
            let name = entry.file_name().into_string().ok().context("a name of UTF-8")?;
            parts.extend(["Cargo.toml", "src"].map(|part| format!("companion-cli/{name}/{part}")));
        }
    }
    parts.iter().try_for_each(|part| copy(&workspace().join(part), &to.join(part)))
}

/// Copies a file, or a folder with its contents.
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
