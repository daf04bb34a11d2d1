//! Detects changes of files by polling: editors replace, truncate and rename in too many ways to
//! trust events, and network folders send none.

use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, TryRecvError, channel};
use std::time::{Duration, Instant, SystemTime};

use super::folder::at;
use super::module::ModuleSource;
use laststream_base::causes::Context as _;
use laststream_base::foreign;

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

/// Compares files with their state at the last poll.
#[derive(Debug)]
pub struct ChangeDetector {
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

    /// Detects changes of a module's files from now on, also those that are made while it compiles;
    /// `None` if this source never changes.
    pub fn of_module(source: &ModuleSource) -> Option<Self> {
        match source {
            ModuleSource::Builtin => None,
            ModuleSource::File(file) => Some(Self::new(vec![file.clone()])),
            ModuleSource::Checkout(checkout) => {
                let paths: Vec<_> = SOURCES.map(|path| checkout.folder.join(path)).into();
                let states = file_states(&paths);
                Some(Self { reported: states.clone(), seen: states, ..Self::new(paths) })
            }
        }
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

type ReadResult = Result<Vec<u8>, String>;

/// Watches the files that something is made of. A thread makes it, because compiling takes a while;
/// changes meanwhile are seen next.
pub struct Watch {
    eye: ChangeDetector,
    bytes: Vec<u8>,
    make: Arc<dyn Fn() -> ReadResult + Send + Sync>,
    making: Option<Receiver<ReadResult>>,
    is_due: bool,
}

impl Watch {
    /// Watches a policy from now on; its text so far is `text`.
    pub fn policy(file: PathBuf, text: Vec<u8>) -> Self {
        let eye = ChangeDetector::new(vec![file.clone()]);
        Self::new(eye, text, move || foreign::read_named(&file, LARGEST_POLICY).context(at(&file)))
    }

    /// Watches the files of `eye`, from which `make` makes the contents; they are `bytes` so far.
    pub fn new(
        eye: ChangeDetector,
        bytes: Vec<u8>,
        make: impl Fn() -> ReadResult + Send + Sync + 'static,
    ) -> Self {
        Self { eye, bytes, make: Arc::new(make), making: None, is_due: false }
    }

    /// The new contents, if they have changed.
    pub fn changed(&mut self) -> Option<ReadResult> {
        self.is_due |= self.eye.has_changed();
        if let Some(making) = &self.making {
            let result = match making.try_recv() {
                Ok(made) => made,
                Err(TryRecvError::Empty) => return None,
                Err(TryRecvError::Disconnected) => Err("reading it broke off".to_owned()),
            };
            self.making = None;
            let is_new = result.as_ref().map_or(true, |bytes| *bytes != self.bytes);
            result.iter().for_each(|bytes| self.bytes.clone_from(bytes));
            return is_new.then_some(result);
        }
        if std::mem::take(&mut self.is_due) {
            let (make, (sender, making)) = (Arc::clone(&self.make), channel());
            std::thread::spawn(move || sender.send(make())); // the receiver may be gone
            self.making = Some(making);
        }
        None
    }
}

fn file_states(paths: &[PathBuf]) -> FileStates {
    let mut states = Vec::new();
    paths.iter().for_each(|path| collect_file_states(path, &mut states));
    states.sort();
    states
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
    use super::super::module::Checkout;
    use super::*;

    #[test]
    fn a_file_that_is_saved_during_the_first_compile_is_a_change() {
        let checkout = tempfile::tempdir().unwrap();
        let file = checkout.path().join("Cargo.lock");
        std::fs::write(&file, "1").unwrap();
        let of_run = Checkout::new(checkout.path().to_owned()).unwrap();
        let source = ModuleSource::Checkout(of_run);
        let [idle, eye] = [(); 2].map(|()| ChangeDetector::of_module(&source).unwrap());
        let has_changed = |mut eye: ChangeDetector| {
            (0..8).any(|_| {
                std::thread::sleep(PAUSE);
                eye.has_changed()
            })
        };
        assert!(!has_changed(idle));
        std::fs::write(&file, "22").unwrap();
        assert!(has_changed(eye));
    }
}
