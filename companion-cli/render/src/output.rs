//! Compares rendered files with a folder, and writes what differs.

use std::io::ErrorKind;
use std::path::Path;
use std::{fmt, fs};

use similar::TextDiff;

use super::files::{FILES_OF_ALL, MARK, Rendered};
use laststream_base::causes::Context as _;
use laststream_base::files::write_atomically;
use laststream_base::foreign;

/// The largest rendered file in bytes; a larger one was not rendered.
const LARGEST: u64 = 16 << 20;

/// People use the same names for files of their own, such as `kustomization.yaml`.
const NOT_RENDERED: &str = "it was not rendered by laststream; name another folder, or remove it";

/// How a file in the folder differs from what would be rendered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Difference {
    Missing(String),
    /// Its content differs; the text is a unified diff from the folder to the rendered file.
    Changed(String, String),
    /// It was rendered earlier, and would not be rendered now.
    Stale(String),
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Missing(name) => write!(f, "missing: {name}"),
            Self::Changed(name, _) => write!(f, "differs: {name}"),
            Self::Stale(name) => write!(f, "stale: {name} is no longer rendered by this policy"),
        }
    }
}

/// Says what could not be done with a file or folder.
fn cannot(action: &str, path: &Path) -> String {
    format!("cannot {action} `{}`", path.display())
}

/// The content of a file; `None` if there is none.
fn content(path: &Path) -> Result<Option<Vec<u8>>, String> {
    match foreign::read_named(path, LARGEST) {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        text => text.map(Some).context(cannot("read", path)),
    }
}

/// Compares the rendered files with a folder. `everything`: files of `render all` that were
/// rendered earlier and are not among these are stale.
///
/// # Errors
/// The folder cannot be read.
pub fn differences(
    folder: &Path,
    rendered: &Rendered,
    everything: bool,
) -> Result<Vec<Difference>, String> {
    let mut differences = Vec::new();
    for file in &rendered.files {
        match content(&folder.join(&file.name))? {
            Some(there) if there == file.text.as_bytes() => {}
            Some(there) => differences.push(Difference::Changed(
                file.name.clone(),
                diff(&file.name, &String::from_utf8_lossy(&there), &file.text),
            )),
            None => differences.push(Difference::Missing(file.name.clone())),
        }
    }
    let is_wanted = |name: &str| rendered.files.iter().any(|file| file.name == name);
    for name in FILES_OF_ALL.into_iter().filter(|name| everything && !is_wanted(name)) {
        let path = folder.join(name);
        // A folder or a pipe of this name was never rendered.
        if path.is_file() && content(&path)?.is_some_and(|text| was_rendered(&text)) {
            differences.push(Difference::Stale(name.to_owned()));
        }
    }
    Ok(differences)
}

pub(super) fn diff(name: &str, there: &str, rendered: &str) -> String {
    TextDiff::from_lines(there, rendered)
        .unified_diff()
        .context_radius(3)
        .header(&format!("a/{name}"), &format!("b/{name}"))
        .to_string()
}

/// Whether laststream has rendered a file. A comment at the head shows that, also below a licence.
fn was_rendered(text: &[u8]) -> bool {
    let text = String::from_utf8_lossy(text);
    let mut head = text
        .lines()
        .map(str::trim)
        .take_while(|line| line.is_empty() || line.starts_with('#') || *line == "---");
    head.any(|line| line.trim_start_matches('#').trim_start().starts_with(MARK))
}

/// Writes the files that differ, each whole or not at all; returns their names. No file is deleted,
/// and a file that was not rendered is replaced only if it is empty.
///
/// # Errors
/// The folder cannot be made, or a file cannot be read or was not rendered: then nothing is
/// written. Or a file cannot be written.
pub fn write(folder: &Path, rendered: &Rendered) -> Result<Vec<String>, String> {
    fs::create_dir_all(folder).context(cannot("make the folder", folder))?;
    // All files are looked at before the first one is written.
    let mut changes = Vec::new();
    for file in &rendered.files {
        let path = folder.join(&file.name);
        match content(&path)? {
            Some(there) if there == file.text.as_bytes() => {}
            Some(there) if !there.trim_ascii().is_empty() && !was_rendered(&there) => {
                return Err(NOT_RENDERED).context(cannot("write", &path));
            }
            _ => changes.push((file, path)),
        }
    }
    for (file, path) in &changes {
        write_atomically(path, file.text.as_bytes()).context(cannot("write", path))?;
    }
    Ok(changes.into_iter().map(|(file, _)| file.name.clone()).collect())
}
