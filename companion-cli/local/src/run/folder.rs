//! The folder of a run: log, bootstrap, the files that Envoy watches, and the modules.

use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use laststream_base::causes::Context as _;
use laststream_base::yaml::Map;
use laststream_module::builtin_frames;
use laststream_render::local::{self, RESOURCES, Watched};

const MODULES: &str = "modules";

#[derive(Debug)]
pub(super) struct Folder {
    path: PathBuf,
    version: AtomicU64,
    is_temporary: bool,
    is_needed: bool,
}

impl Folder {
    /// A new folder among the temporary ones; or the named folder, if it is empty.
    pub(super) fn new(named: Option<&Path>) -> Result<Self, String> {
        let path = match named {
            Some(named) => of_ones_own(named)?,
            None => {
                let new = tempfile::Builder::new().prefix("laststream-run-").tempdir();
                new.context(at(&std::env::temp_dir()))?.keep()
            }
        };
        for folder in Watched::ALL.map(Watched::name).into_iter().chain([MODULES]) {
            fs::create_dir(path.join(folder)).context(at(&path.join(folder)))?;
        }
        let is_temporary = named.is_none();
        Ok(Self { path, version: AtomicU64::new(1), is_temporary, is_needed: true })
    }

    /// Marks the log and the configuration as no longer needed. Returns whether the folder is a
    /// temporary one, which is removed with this value.
    pub(super) fn release(&mut self) -> bool {
        self.is_needed = !self.is_temporary;
        self.is_temporary
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    pub(super) fn log(&self) -> PathBuf {
        self.path.join("envoy.log")
    }

    pub(super) fn frames(&self) -> PathBuf {
        self.path.join(MODULES).join("frames.wasm")
    }

    pub(super) fn write(&self, name: &str, text: &str) -> Result<PathBuf, String> {
        let path = self.path.join(name);
        fs::write(&path, text).context(at(&path))?;
        Ok(path)
    }

    /// Adds a module beside the earlier ones, because Envoy may still have to read an older one.
    pub(super) fn add_module(&self, bytes: &[u8]) -> Result<PathBuf, String> {
        let path = self.path.join(MODULES).join(format!("{}.wasm", self.next()));
        fs::write(&path, bytes).context(at(&path))?;
        Ok(path)
    }

    /// Adds the built-in module of the frame filter. Without one Envoy refuses the listener of a
    /// policy with WebSockets, and names the file.
    pub(super) fn add_frames(&self) -> Result<(), String> {
        let Ok(bytes) = builtin_frames() else { return Ok(()) };
        fs::write(self.frames(), bytes).context(at(&self.frames()))
    }

    /// Writes a new version of a watched file atomically. Envoy reads it when a file is moved into
    /// the folder.
    pub(super) fn publish(&self, file: Watched, resource: &Map) -> Result<(), String> {
        let path = self.path.join(file.name()).join(RESOURCES);
        let text = local::resources(self.next(), resource);
        let write = || -> std::io::Result<()> {
            // The file is made outside the watched folder, which must only see the finished one.
            let mut fresh = tempfile::NamedTempFile::new_in(&self.path)?;
            fresh.write_all(text.as_bytes())?;
            fresh.persist(&path)?;
            Ok(())
        };
        write().context(at(&path))
    }

    fn next(&self) -> u64 {
        self.version.fetch_add(1, Ordering::Relaxed)
    }
}

impl Drop for Folder {
    /// Removes the modules. Log and configuration stay if they are needed.
    fn drop(&mut self) {
        let modules = self.path.join(MODULES);
        // the modules take megabytes; a failure to remove them does no other harm
        let _ = fs::remove_dir_all(if self.is_needed { &modules } else { &self.path });
    }
}

/// A path, as an error names it.
pub(super) fn at(path: &Path) -> String {
    format!("`{}`", path.display())
}

fn of_ones_own(named: &Path) -> Result<PathBuf, String> {
    let path = std::path::absolute(named).context(at(named))?;
    fs::create_dir_all(&path).context(at(&path))?;
    let is_empty = fs::read_dir(&path).context(at(&path))?.next().is_none();
    if is_empty {
        Ok(path)
    } else {
        Err("is not empty: name a folder for this run alone").context(at(&path))
    }
}
