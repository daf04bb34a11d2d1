//! Detects changes of files by polling: editors replace, truncate and rename in too many ways to
//! trust events, and network folders send none.

use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, TryRecvError, channel};
use std::time::{Duration, Instant, SystemTime};

use super::module::ModuleSource;
use laststream_base::foreign;
use laststream_base::progress::Progress;

/// The time between two polls. A file must be unchanged for two polls, because its writer may not
/// have finished.
const PAUSE: Duration = Duration::from_millis(200);

/// The size limit of the policy, the same as at the start.
const LARGEST_POLICY: u64 = 16 << 20;

/// The paths in a checkout from which the module is compiled.
const SOURCES: [&str; 6] = [
    "filter/src",
    "filter/Cargo.toml",
    "filter/drain/src",
    "filter/drain/Cargo.toml",
    "Cargo.toml",
    "Cargo.lock",
];

/// The time, size and inode of each file; `None` for a file that is missing.
type FileStates = Vec<(PathBuf, Option<(SystemTime, u64, u64)>)>;

#[derive(Debug)]
struct ChangeDetector {
    paths: Vec<PathBuf>,
    reported: FileStates,
    seen: FileStates,
    next: Instant,
}

impl ChangeDetector {
    /// Reports a first change at once, because the files may be newer than what was read before.
    fn new(paths: Vec<PathBuf>) -> Self {
        Self {
            paths,
            reported: FileStates::new(),
            seen: FileStates::new(),
            next: Instant::now() + PAUSE,
        }
    }

    fn since(self, then: FileStates) -> Self {
        Self { reported: then.clone(), seen: then, ..self }
    }

    /// Whether the files have changed since the last report, and are the same as at the last poll.
    fn has_changed(&mut self) -> bool {
        if Instant::now() < self.next {
            return false;
        }
        self.next = Instant::now() + PAUSE;
        let now = file_states(&self.paths);
        let is_still = now == self.seen;
        self.seen = now;
        if is_still && self.seen != self.reported {
            self.reported.clone_from(&self.seen);
            return true;
        }
        false
    }
}

#[derive(Debug)]
pub struct PolicyWatch {
    file: PathBuf,
    eye: ChangeDetector,
    text: Vec<u8>,
}

impl PolicyWatch {
    /// Watches from now on; the file's text so far is `text`.
    pub fn new(file: PathBuf, text: Vec<u8>) -> Self {
        Self { eye: ChangeDetector::new(vec![file.clone()]), file, text }
    }

    pub fn changed(&mut self) -> Option<Result<Vec<u8>, String>> {
        if !self.eye.has_changed() {
            return None;
        }
        match foreign::read_named(&self.file, LARGEST_POLICY) {
            Ok(text) if text == self.text => None,
            Ok(text) => {
                self.text.clone_from(&text);
                Some(Ok(text))
            }
            Err(error) => Some(Err(format!("`{}`: {error}", self.file.display()))),
        }
    }
}

/// Watches the module: a file, or the sources that it is compiled from. A thread compiles it, and
/// changes meanwhile are compiled next.
pub struct ModuleWatch {
    source: ModuleSource,
    eye: ChangeDetector,
    bytes: Vec<u8>,
    making: Option<Receiver<Result<Vec<u8>, String>>>,
    is_due: bool,
    progress: fn() -> Box<dyn Progress + Send>,
}

/// The state of a checkout's sources before they are compiled. Compiling takes a while, and a file
/// may change meanwhile.
pub struct SourcesSeen(FileStates);

impl SourcesSeen {
    /// The state at this moment; empty for a module that is not compiled.
    pub fn of(source: &ModuleSource) -> Self {
        match source {
            ModuleSource::Checkout(folder) => Self(file_states(&sources(folder))),
            ModuleSource::Builtin | ModuleSource::File(_) => Self(FileStates::new()),
        }
    }
}

fn sources(folder: &Path) -> Vec<PathBuf> {
    SOURCES.map(|path| folder.join(path)).into()
}

impl ModuleWatch {
    /// Watches from now on; the module so far is `bytes`, compiled from the sources in `seen`.
    /// `None` if this source never changes. Compiling reports to a separate progress.
    pub fn new(
        source: ModuleSource,
        seen: SourcesSeen,
        bytes: Vec<u8>,
        progress: fn() -> Box<dyn Progress + Send>,
    ) -> Option<Self> {
        let eye = match &source {
            ModuleSource::Builtin => return None,
            ModuleSource::File(file) => ChangeDetector::new(vec![file.clone()]),
            ModuleSource::Checkout(folder) => ChangeDetector::new(sources(folder)).since(seen.0),
        };
        Some(Self { eye, source, bytes, making: None, is_due: false, progress })
    }

    pub fn changed(&mut self) -> Option<Result<Vec<u8>, String>> {
        self.is_due |= self.eye.has_changed();
        if let Some(making) = &self.making {
            let made = match making.try_recv() {
                Ok(made) => made,
                Err(TryRecvError::Empty) => return None,
                Err(TryRecvError::Disconnected) => Err("compiling the module broke off".to_owned()),
            };
            self.making = None;
            return self.news(made);
        }
        if std::mem::take(&mut self.is_due) {
            let (source, progress) = (self.source.clone(), self.progress);
            let (sender, making) = channel();
            std::thread::spawn(move || {
                let _ = sender.send(source.bytes(&*progress())); // the receiver may be gone
            });
            self.making = Some(making);
        }
        None
    }

    fn news(&mut self, made: Result<Vec<u8>, String>) -> Option<Result<Vec<u8>, String>> {
        match made {
            Ok(bytes) if bytes == self.bytes => None,
            Ok(bytes) => {
                self.bytes.clone_from(&bytes);
                Some(Ok(bytes))
            }
            Err(error) => Some(Err(error)),
        }
    }
}

fn file_states(paths: &[PathBuf]) -> FileStates {
    let mut found = Vec::new();
    paths.iter().for_each(|path| collect_file_states(path, &mut found));
    found.sort();
    found
}

fn collect_file_states(path: &Path, found: &mut FileStates) {
    let Ok(about) = std::fs::metadata(path) else {
        found.push((path.to_owned(), None));
        return;
    };
    if about.is_dir() {
        let entries = std::fs::read_dir(path).into_iter().flatten().flatten();
        entries.for_each(|entry| collect_file_states(&entry.path(), found));
        return;
    }
    found.push((
        path.to_owned(),
        Some((about.modified().unwrap_or(SystemTime::UNIX_EPOCH), about.len(), about.ino())),
    ));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_is_saved_during_the_first_compile_is_a_change() {
        let checkout = tempfile::tempdir().unwrap();
        let file = checkout.path().join("Cargo.lock");
        std::fs::write(&file, "1").unwrap();
        let seen = SourcesSeen::of(&ModuleSource::Checkout(checkout.path().to_owned()));
        let has_changed = |seen: &SourcesSeen| {
            let mut eye = ChangeDetector::new(sources(checkout.path())).since(seen.0.clone());
            (0..8).any(|_| {
                std::thread::sleep(PAUSE);
                eye.has_changed()
            })
        };
        assert!(!has_changed(&seen));
        std::fs::write(&file, "22").unwrap();
        assert!(has_changed(&seen));
    }
}
