//! A copy of those parts of the project that building the module needs.

use std::fs;
use std::path::Path;

use crate::{Context as _, Outcome, workspace};

/// What is needed besides the members of the workspace.
const PARTS: [&str; 3] = ["Cargo.toml", "Cargo.lock", "tests/main.rs"];

/// Cargo needs the manifest of every member of the workspace, and a source file for each.
pub fn copy_checkout(to: &Path) -> Outcome {
    let manifest = fs::read_to_string(workspace().join("Cargo.toml"))?;
    let members = manifest.split_once("members = [").and_then(|(_, list)| list.split_once(']'));
    let members = members.context("the members of the workspace")?.0.split('"').skip(1).step_by(2);
    let parts = members.flat_map(|path| ["Cargo.toml", "src"].map(|part| format!("{path}/{part}")));
    let mut parts = PARTS.map(String::from).into_iter().chain(parts);
    parts.try_for_each(|part| copy(&workspace().join(&part), &to.join(&part)))
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
