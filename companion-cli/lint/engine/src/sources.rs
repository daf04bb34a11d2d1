//! Reads the files named on the command line: searches folders, decodes bytes, limits sizes.
//! Objects of a cluster are sources, too.

use std::io::{self, Read};
use std::path::{Path, PathBuf};

use manifest_text::foreign;
use manifest_text::yaml::tree::{MOST_NODES, Tree};

use crate::ClusterObject;

/// The largest file, in bytes. A larger file is not a manifest.
pub const LARGEST_FILE: u64 = 16 << 20;
/// The largest sum of all files, in bytes.
const LARGEST_SUM: u64 = 128 << 20;
/// The most manifests that are read from one folder.
const MOST_FILES: usize = 20_000;
/// The greatest depth of folders within folders.
const DEEPEST_FOLDER: usize = 64;
/// The name of standard input.
pub const STDIN: &str = "<stdin>";
const ENDINGS: [&str; 3] = ["yaml", "yml", "json"];

/// A file: its name and its text.
#[derive(Debug)]
pub struct SourceFile {
    /// The name as given; `<stdin>` for standard input.
    pub name: String,
    /// The text, or the line and the reason of the error if it cannot be decoded.
    pub text: Result<String, (u32, String)>,
    /// The object of a cluster, which has no text; none for a file.
    pub object: Option<ClusterObject>,
    /// The nodes of that object.
    pub tree: Option<Tree>,
    /// The byte offsets of the beginnings of lines.
    lines: Vec<usize>,
}

/// A file that could not be read at all.
#[derive(Debug, thiserror::Error)]
pub enum SourceError {
    #[error("cannot read `{path}`: {error}")]
    Unreadable { path: String, error: io::Error },
    #[error("`{0}` holds no file that ends in .yaml, .yml or .json")]
    Empty(String),
    #[error("standard input holds nothing: did the command before it fail?")]
    NoInput,
    #[error("`{0}` holds more than {MOST_FILES} files: name the folders that matter")]
    TooMany(String),
    #[error("the files together hold more than {MOST_NODES} values: name fewer of them")]
    TooManyValues,
    #[error("the files together are larger than {} MiB: name fewer of them", LARGEST_SUM >> 20)]
    TooLarge,
}

impl SourceFile {
    /// Decodes a text.
    pub fn new(name: impl Into<String>, bytes: Vec<u8>) -> Self {
        let text = decode(bytes);
        let ends = text.iter().flat_map(|text| text.match_indices('\n')).map(|(at, _)| at + 1);
        let lines = std::iter::once(0).chain(ends).collect();
        Self { name: name.into(), text, object: None, tree: None, lines }
    }

    /// An object of a cluster.
    pub fn of_object(object: ClusterObject, tree: Tree) -> Self {
        let source = Self::new(object.to_string(), Vec::new());
        Self { object: Some(object), tree: Some(tree), ..source }
    }

    /// The source, with the line of a file. An object of a cluster has no lines.
    pub fn place(&self, line: u32) -> String {
        if self.object.is_some() { self.name.clone() } else { format!("{}:{line}", self.name) }
    }

    /// A line by its number from 1, without its end.
    pub fn line(&self, number: u32) -> Option<&str> {
        let index = (number as usize).checked_sub(1)?;
        let end = self.lines.get(index + 1).copied();
        let text = self.text.as_deref().ok()?;
        let line = text.get(*self.lines.get(index)?..end.unwrap_or(text.len()))?;
        Some(line.trim_end_matches(['\n', '\r']).trim_start_matches('\u{feff}'))
    }
}

fn decode(bytes: Vec<u8>) -> Result<String, (u32, String)> {
    if bytes.len() as u64 > LARGEST_FILE {
        return Err((
            1,
            format!("the file is larger than {} MiB: it is no manifest", LARGEST_FILE >> 20),
        ));
    }
    if bytes.starts_with(&[0xff, 0xfe]) || bytes.starts_with(&[0xfe, 0xff]) {
        return Err((1, "the text is UTF-16: save it as UTF-8".into()));
    }
    String::from_utf8(bytes).map_err(|error| {
        let valid = error.utf8_error().valid_up_to();
        let line = error.as_bytes().iter().take(valid).filter(|&&byte| byte == b'\n').count() + 1;
        (u32::try_from(line).unwrap_or(1), "the text is not UTF-8 from here on".into())
    })
}

/// Reads files, all manifests in folders (hidden subfolders are skipped), and standard input for
/// `-`. The sources have the order of `paths`; the files of a folder are sorted.
pub fn gather(paths: &[PathBuf], stdin: &mut dyn Read) -> Result<Vec<SourceFile>, SourceError> {
    let mut sources = Vec::new();
    let mut sum = 0;
    let mut add = |name: String, bytes: Vec<u8>| {
        sum += bytes.len() as u64;
        sources.push(SourceFile::new(name, bytes));
        if sum > LARGEST_SUM { Err(SourceError::TooLarge) } else { Ok(()) }
    };
    for path in paths {
        if path == Path::new("-") {
            let bytes = limited(stdin).map_err(unreadable(Path::new("standard input")))?;
            if bytes.iter().all(u8::is_ascii_whitespace) {
                return Err(SourceError::NoInput);
            }
            add(STDIN.into(), bytes)?;
            continue;
        }
        for file in files_of(path)? {
            let bytes = foreign::open_named(&file).and_then(|mut open| limited(&mut open));
            add(shown(&file), bytes.map_err(unreadable(&file))?)?;
        }
    }
    Ok(sources)
}

fn unreadable(path: &Path) -> impl FnOnce(io::Error) -> SourceError + use<> {
    let path = path.display().to_string();
    move |error| SourceError::Unreadable { path, error }
}

/// Reads at most one byte more than the limit. That byte shows that the input is too large.
fn limited(from: &mut dyn Read) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    from.take(LARGEST_FILE + 1).read_to_end(&mut bytes)?;
    Ok(bytes)
}

fn shown(path: &Path) -> String {
    path.strip_prefix(".").unwrap_or(path).display().to_string()
}

fn files_of(path: &Path) -> Result<Vec<PathBuf>, SourceError> {
    if !std::fs::metadata(path).map_err(unreadable(path))?.is_dir() {
        return Ok(vec![path.to_owned()]);
    }
    let mut found = Vec::new();
    let mut folders = vec![(path.to_owned(), 0)];
    while let Some((folder, depth)) = folders.pop() {
        for entry in std::fs::read_dir(&folder).map_err(unreadable(&folder))? {
            let entry = entry.map_err(unreadable(&folder))?;
            let kind = entry.file_type().map_err(unreadable(&entry.path()))?;
            let hidden = entry.file_name().as_encoded_bytes().starts_with(b".");
            if kind.is_dir() && !hidden && depth < DEEPEST_FOLDER {
                // Links to folders are not followed, because they may form a cycle.
                folders.push((entry.path(), depth + 1));
            } else if !kind.is_dir() && is_manifest(&entry.path()) {
                found.push(entry.path());
            }
        }
        if found.len() > MOST_FILES {
            return Err(SourceError::TooMany(path.display().to_string()));
        }
    }
    found.sort();
    if found.is_empty() { Err(SourceError::Empty(path.display().to_string())) } else { Ok(found) }
}

fn is_manifest(path: &Path) -> bool {
    let ending = path.extension().and_then(std::ffi::OsStr::to_str).unwrap_or_default();
    ENDINGS.iter().any(|known| ending.eq_ignore_ascii_case(known)) && path.is_file()
}
