//! One version's folder in the cache: `envoy/<version>/`.
//!
//! | file | contents |
//! |---|---|
//! | `envoy` | the binary, which was checked: it has this version |
//! | `envoy.json` | the record of the binary: checksum, size, time, source |
//! | `lock` | held by the process that downloads; released when that process dies |
//! | `part-*`, `.laststream-*` | unfinished work; the next holder of the lock removes it |
//!
//! A file gets its name by renaming, after its bytes are on the disk, so a killed process leaves no
//! file that looks finished. Later changes to the binary are noticed, too: its size must be as
//! recorded, and if its time is not, its checksum is compared again.

use super::files::{self, Fingerprint, file_error};
use super::{Origin, Places, Version};
use laststream_base::children::Scratch;
use laststream_base::env_vars::LASTSTREAM_CACHE;
use laststream_base::files::{UNFINISHED, write_durably};
use laststream_base::progress::Progress;
use serde::{Deserialize, Serialize};
use std::fs::{self, File, TryLockError};
use std::io;
use std::path::{Path, PathBuf};

pub(crate) struct Slot {
    folder: PathBuf,
    platform: String,
    version: Version,
}

#[derive(Debug, Serialize, Deserialize)]
struct CacheRecord {
    sha256: String,
    fingerprint: Fingerprint,
    origin: Origin,
    /// The platform of the binary, because home folders are shared between machines.
    platform: String,
}

pub(crate) struct Lock {
    /// `None` where the file system has no locks. Then two processes may fetch the same file, and
    /// renaming still keeps the file whole.
    held: Option<File>,
}

impl Slot {
    pub(crate) fn new(places: &Places, version: Version) -> Result<Self, String> {
        let cache = places.cache.as_ref().ok_or_else(|| {
            format!(
                "neither `{LASTSTREAM_CACHE}` nor `XDG_CACHE_HOME` nor `HOME` is set: set \
                    `{LASTSTREAM_CACHE}` to a folder"
            )
        })?;
        Ok(Self {
            folder: cache.join("envoy").join(version.to_string()),
            platform: places.platform.to_string(),
            version,
        })
    }

    pub(crate) fn folder(&self) -> &Path {
        &self.folder
    }

    fn binary(&self) -> PathBuf {
        self.folder.join("envoy")
    }

    fn record(&self) -> PathBuf {
        self.folder.join("envoy.json")
    }

    pub(crate) fn find(&self) -> Result<PathBuf, String> {
        let binary = self.binary();
        let now = match Fingerprint::of(&binary) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                return Err("there is nothing yet".to_owned());
            }
            result => result.map_err(file_error("read", &binary))?,
        };
        // The file has changed since it was put there, has no valid record, or cannot run on this
        // machine.
        let damaged = |why: String| {
            Err(format!("the file is damaged or not complete ({why}) and is not used"))
        };
        let path = self.record();
        let record = match fs::read(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                return damaged(format!("there is no `{}` with it", path.display()));
            }
            result => result.map_err(file_error("read", &path))?,
        };
        let Ok(record) = serde_json::from_slice::<CacheRecord>(&record) else {
            return damaged(format!("`{}` is not whole", path.display()));
        };
        if record.platform != self.platform {
            let (theirs, own) = (&record.platform, &self.platform);
            return damaged(format!("it is for {theirs}, this machine is {own}"));
        }
        if now.size != record.fingerprint.size {
            return damaged(format!("{} bytes instead of {}", now.size, record.fingerprint.size));
        }
        if now != record.fingerprint {
            let sha256 = files::sha256(&binary).map_err(file_error("read", &binary))?;
            if sha256 != record.sha256 {
                return damaged(format!("SHA-256 `{sha256}` instead of `{}`", record.sha256));
            }
            // A copied cache has the right bytes and another time. Recording the time avoids
            // hashing in each run; a failure does no harm.
            let _ = self.write_record(&CacheRecord { fingerprint: now, ..record });
        }
        if !files::is_executable(&binary) {
            return damaged("it is not executable".to_owned());
        }
        Ok(binary)
    }

    /// Waits until no other process fetches this version, and removes leftovers of dead processes.
    pub(crate) fn lock(&self, progress: &dyn Progress) -> Result<Lock, String> {
        fs::create_dir_all(&self.folder).map_err(file_error("make the folder", &self.folder))?;
        let path = self.folder.join("lock");
        let failed = || file_error("lock", &path);
        let file = File::options()
            .create(true)
            .truncate(false)
            .write(true)
            .open(&path)
            .map_err(failed())?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                progress.started(&format!(
                    "waiting for another process that fetches Envoy {}",
                    self.version
                ));
                file.lock().map_err(failed())?;
                progress.finished("the other process is done");
            }
            Err(TryLockError::Error(error)) if has_no_locks(&error) => {
                return Ok(Lock { held: None });
            }
            Err(TryLockError::Error(error)) => return Err(failed()(error)),
        }
        self.sweep();
        Ok(Lock { held: Some(file) })
    }

    /// Removes unfinished files. They belong to the holder of the lock, so at the beginning of a
    /// lock they are leftovers.
    fn sweep(&self) {
        for entry in fs::read_dir(&self.folder).into_iter().flatten().flatten() {
            let name = entry.file_name();
            let name = name.to_string_lossy();
            if name.starts_with(files::PART) || name.starts_with(UNFINISHED) {
                // A leftover that stays takes disk space and does no other harm.
                let _ = fs::remove_dir_all(entry.path()).or_else(|_| fs::remove_file(entry.path()));
            }
        }
    }

    /// A folder for unfinished work, which is removed when the value is dropped.
    pub(crate) fn workplace(&self, _lock: &Lock) -> Result<Scratch, String> {
        Scratch::new(|| tempfile::Builder::new().prefix(files::PART).tempdir_in(&self.folder))
            .map_err(file_error("write in", &self.folder))
    }

    /// Gives a finished and checked file its name.
    pub(crate) fn place(
        &self,
        finished: &Path,
        sha256: String,
        origin: Origin,
        _lock: &Lock,
    ) -> Result<PathBuf, String> {
        let binary = self.binary();
        let place = || -> io::Result<()> {
            files::make_program(finished)?;
            let fingerprint = Fingerprint::of(finished)?;
            fs::rename(finished, &binary)?;
            // If the process ends here, the old record does not fit the new file, so the file is
            // fetched again.
            self.write_record(&CacheRecord {
                sha256,
                fingerprint,
                origin,
                platform: self.platform.clone(),
            })?;
            File::open(&self.folder)?.sync_all()
        };
        place().map_err(file_error("place", &binary))?;
        Ok(binary)
    }

    fn write_record(&self, record: &CacheRecord) -> io::Result<()> {
        write_durably(&self.record(), &serde_json::to_vec_pretty(record)?)
    }
}

/// Whether the file system has no locks. NFS without its lock service says that none is available.
fn has_no_locks(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::Unsupported
        || error.raw_os_error() == Some(rustix::io::Errno::NOLCK.raw_os_error())
}

impl Drop for Lock {
    fn drop(&mut self) {
        if let Some(file) = &self.held {
            // Closing the file is not enough if a child process that is just being started still
            // holds it.
            let _ = file.unlock();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use laststream_base::digest::Digest;
    use laststream_base::progress::Silent;
    use std::os::unix::fs::MetadataExt as _;
    use tempfile::TempDir;

    struct Fixture {
        _home: TempDir,
        slot: Slot,
    }

    /// A slot with the file `good` in it.
    fn fixture() -> Fixture {
        let home = tempfile::tempdir().unwrap();
        let mut places = Places::from_vars(&|_| None);
        places.cache = Some(home.path().to_path_buf());
        let slot = Slot::new(&places, Version::new(1, 40, 0)).unwrap();
        let lock = slot.lock(&Silent).unwrap();
        let work = slot.workplace(&lock).unwrap();
        let finished = work.path().join("envoy");
        fs::write(&finished, "good").unwrap();
        slot.place(&finished, Digest::of(b"good").hex().to_owned(), Origin::Release, &lock)
            .unwrap();
        Fixture { _home: home, slot }
    }

    fn damage(slot: &Slot) -> String {
        let error = slot.find().unwrap_err();
        assert!(error.contains("damaged"), "{error}");
        error
    }

    #[test]
    fn other_bytes_are_noticed_and_another_time_alone_is_not_damage() {
        let Fixture { _home, slot } = fixture();
        let set_time = |time| {
            File::options().write(true).open(slot.binary()).unwrap().set_modified(time).unwrap()
        };
        set_time(std::time::UNIX_EPOCH);
        assert!(slot.find().is_ok());
        let record: CacheRecord =
            serde_json::from_slice(&fs::read(slot.record()).unwrap()).unwrap();
        let now = Fingerprint::of(&slot.binary()).unwrap();
        assert_eq!(record.fingerprint, now, "the new time is recorded");
        fs::write(slot.binary(), "evil").unwrap();
        assert!(damage(&slot).contains("SHA-256"));
    }

    #[test]
    fn a_binary_without_its_record_or_for_another_machine_is_not_used() {
        let Fixture { _home, slot } = fixture();
        let elsewhere = Slot {
            folder: slot.folder.clone(),
            platform: "linux/other".into(),
            version: slot.version,
        };
        assert!(damage(&elsewhere).contains("linux/other"));
        fs::write(slot.record(), "{").unwrap();
        assert!(damage(&slot).contains("envoy.json"));
        fs::remove_file(slot.record()).unwrap();
        assert!(damage(&slot).contains("envoy.json"));
    }

    /// This happens in an image that is built as root and runs as another user.
    #[test]
    fn a_record_that_cannot_be_read_is_no_damage() {
        let Fixture { _home, slot } = fixture();
        let mode = |path: &Path| fs::metadata(path).unwrap().mode() & 0o777;
        assert_eq!(mode(&slot.record()), mode(&slot.folder().join("lock")), "the usual ones");
        fs::remove_file(slot.record()).unwrap();
        fs::create_dir(slot.record()).unwrap(); // not readable for root either
        let error = slot.find().unwrap_err();
        assert!(!error.contains("damaged") && error.contains("envoy.json"), "{error}");
    }

    #[test]
    fn a_file_system_without_locks_is_recognized() {
        use rustix::io::Errno;
        let lacks = |errno: Errno| has_no_locks(&io::Error::from(errno));
        assert!(lacks(Errno::NOLCK) && lacks(Errno::NOSYS));
        assert!(!lacks(Errno::IO) && !lacks(Errno::ACCESS));
    }
}
