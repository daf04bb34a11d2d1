//! Completions and manual pages, which the released program writes itself.

use std::fs;

use crate::{Inputs, Packed, compressed};
use laststream_base::causes::Context as _;

/// Shells, and the file names under which they look for completions.
const SHELLS: [(&str, &str); 5] = [
    ("bash", "laststream.bash"),
    ("elvish", "laststream.elv"),
    ("fish", "laststream.fish"),
    ("powershell", "_laststream.ps1"),
    ("zsh", "_laststream"),
];

pub(crate) fn archive(inputs: &Inputs) -> Result<Vec<u8>, String> {
    let mut files = Vec::new();
    for (shell, name) in SHELLS {
        files.push((format!("completions/{name}"), inputs.run(&["completions", shell])?));
    }
    files.extend(manual_pages(inputs)?);
    let packed: Vec<_> =
        files.iter().map(|(path, bytes)| Packed { path, mode: 0o644, bytes }).collect();
    compressed(&packed, "the archive of completions and manual pages")
}

/// The pages are sorted by name, because folders have no order of their own.
fn manual_pages(inputs: &Inputs) -> Result<Vec<(String, Vec<u8>)>, String> {
    let subject = || "the manual pages";
    let folder = tempfile::tempdir().context(subject())?;
    inputs.run(&["man", &folder.path().to_string_lossy()])?;
    let mut pages = Vec::new();
    for entry in fs::read_dir(folder.path()).context(subject())? {
        let entry = entry.context(subject())?;
        pages.push((
            format!("man/man1/{}", entry.file_name().to_string_lossy()),
            fs::read(entry.path()).context(subject())?,
        ));
    }
    pages.sort();
    Ok(pages)
}
