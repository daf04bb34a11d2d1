//! Compares rendered files with a folder, and writes what differs.

use std::collections::BTreeSet;
use std::fs;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

use similar::TextDiff;

use super::{FILES_OF_ALL, MARK, Rendered};
use crate::files::write_atomically;
use crate::foreign;

/// Of a file that was rendered once; more is something else.
const LARGEST: u64 = 16 << 20;

/// How a file in the folder differs from what would be rendered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Difference {
    /// It is not there.
    Missing(String),
    /// It says something else; the text is a unified diff from the folder to what is rendered.
    Changed(String, String),
    /// It was rendered once, and would not be any more.
    Stale(String),
}

/// A folder that could not be read or written, or a file in it.
#[derive(Debug, thiserror::Error)]
#[error("cannot {action} `{}`: {error}", path.display())]
pub struct FolderError {
    action: &'static str,
    path: PathBuf,
    error: io::Error,
}

impl FolderError {
    fn of(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self {
        let path = path.to_owned();
        move |error| Self { action, path, error }
    }
}

/// Compares. `everything`: files of [`super::Kind::All`] that were rendered once and are not part
/// of this are stale.
///
/// # Errors
/// The folder cannot be read.
pub fn differences(
    folder: &Path,
    rendered: &Rendered,
    everything: bool,
) -> Result<Vec<Difference>, FolderError> {
    let mut found = Vec::new();
    for file in &rendered.files {
        let path = folder.join(&file.name);
        match foreign::read_named(&path, LARGEST) {
            Ok(there) if there == file.text.as_bytes() => {}
            Ok(there) => found.push(Difference::Changed(
                file.name.clone(),
                diff(&file.name, &String::from_utf8_lossy(&there), &file.text),
            )),
            Err(error) if error.kind() == ErrorKind::NotFound => {
                found.push(Difference::Missing(file.name.clone()))
            }
            Err(error) => return Err(FolderError::of("read", &path)(error)),
        }
    }
    if everything {
        let wanted: BTreeSet<&str> = rendered.files.iter().map(|file| file.name.as_str()).collect();
        let stale =
            once_rendered(folder)?.into_iter().filter(|name| !wanted.contains(name.as_str()));
        found.extend(stale.map(Difference::Stale));
    }
    Ok(found)
}

fn diff(name: &str, there: &str, rendered: &str) -> String {
    TextDiff::from_lines(there, rendered)
        .unified_diff()
        .context_radius(3)
        .header(&format!("a/{name}"), &format!("b/{name}"))
        .to_string()
}

/// The files that `render all` has once written, in order of their names. Others are not opened.
fn once_rendered(folder: &Path) -> Result<BTreeSet<String>, FolderError> {
    let mut names = BTreeSet::new();
    for name in FILES_OF_ALL {
        let path = folder.join(name);
        if !path.is_file() {
            continue; // a folder or a pipe of this name was never rendered
        }
        let text = match foreign::read_named(&path, LARGEST) {
            Err(error) if error.kind() == ErrorKind::NotFound => continue,
            text => text.map_err(FolderError::of("read", &path))?,
        };
        if text.strip_prefix(b"# ").is_some_and(|text| text.starts_with(MARK.as_bytes())) {
            names.insert(name.to_owned());
        }
    }
    Ok(names)
}

/// Writes what differs, each file whole or not at all; returns the names of those written. Nothing
/// is deleted.
///
/// # Errors
/// The folder or a file cannot be written.
pub fn write(folder: &Path, rendered: &Rendered) -> Result<Vec<String>, FolderError> {
    fs::create_dir_all(folder).map_err(FolderError::of("make the folder", folder))?;
    let mut written = Vec::new();
    for file in &rendered.files {
        let path = folder.join(&file.name);
        if foreign::read_named(&path, LARGEST).is_ok_and(|there| there == file.text.as_bytes()) {
            continue;
        }
        write_atomically(&path, file.text.as_bytes()).map_err(FolderError::of("write", &path))?;
        written.push(file.name.clone());
    }
    Ok(written)
}
