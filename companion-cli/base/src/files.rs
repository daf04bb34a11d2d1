//! Writes files atomically, and starts programs whose files were just written.

use std::borrow::Cow;
use std::fs::{self, File, Permissions};
use std::io::{self, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::thread;
use std::time::Duration;

/// The prefix of the names of unfinished files.
pub const UNFINISHED: &str = ".laststream-";

/// Writes a file atomically, with the permissions that it has; a new file gets the usual ones, less
/// the umask, instead of those of a temporary file. A symbolic link stays, and its target is
/// written. A device or a pipe is written to, not replaced.
pub fn write_atomically(path: &Path, bytes: &[u8]) -> io::Result<()> {
    write(path, bytes, |_| Ok(()))
}

/// Like [`write_atomically`], but the bytes are on the disk before the file has its name.
pub fn write_durably(path: &Path, bytes: &[u8]) -> io::Result<()> {
    write(path, bytes, File::sync_all)
}

fn write(path: &Path, bytes: &[u8], sync: fn(&File) -> io::Result<()>) -> io::Result<()> {
    if is_stream(path)? {
        // Appends, because standard output may lead to the end of a file with content.
        return File::options().append(true).open(path)?.write_all(bytes);
    }
    let target = target(path)?;
    let folder = target.parent().filter(|folder| !folder.as_os_str().is_empty());
    let mut file = tempfile::Builder::new()
        .prefix(UNFINISHED)
        .permissions(Permissions::from_mode(0o666))
        .tempfile_in(folder.unwrap_or(Path::new(".")))?;
    file.write_all(bytes)?;
    if let Ok(there) = fs::metadata(&target) {
        file.as_file().set_permissions(there.permissions())?;
    }
    sync(file.as_file())?;
    file.persist(&target)?;
    Ok(())
}

/// Checks that a file can be written there, before the work whose result goes into it. The error
/// names the problem of the path.
pub fn check_place(path: &Path) -> io::Result<()> {
    let place = std::path::absolute(path)?;
    let refused = |why: String| Err(io::Error::other(why));
    match place.parent() {
        _ if place.is_dir() => refused("it is a folder: name a file".to_owned()),
        Some(parent) if parent.is_dir() => Ok(()),
        Some(parent) => refused(format!("there is no folder `{}`", parent.display())),
        None => refused("it is not a regular file".to_owned()),
    }
}

/// Whether this is a device or a pipe, or a file that is already open, such as `/dev/stdout`. A
/// rename would put a file in its place.
fn is_stream(path: &Path) -> io::Result<bool> {
    let leads_to_proc = |link: std::path::PathBuf| link.starts_with("/proc");
    let is_opened = path.starts_with("/proc") || fs::read_link(path).is_ok_and(leads_to_proc);
    match fs::metadata(path) {
        Ok(about) => Ok(is_opened || !about.is_file()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(error),
    }
}

/// The target of a symbolic link, or the path itself.
fn target(path: &Path) -> io::Result<Cow<'_, Path>> {
    if !path.is_symlink() {
        return Ok(path.into());
    }
    if !path.exists() {
        File::create(path)?; // creates the target, without which there is no path to it
    }
    Ok(fs::canonicalize(path)?.into())
}

/// Retries while the program's file is busy. A file that was just written can be: a child that
/// another thread starts at that moment holds it open until its own exec.
pub fn when_not_busy<T>(mut start: impl FnMut() -> io::Result<T>) -> io::Result<T> {
    for _ in 0..100 {
        match start() {
            Err(error) if error.kind() == io::ErrorKind::ExecutableFileBusy => {
                thread::sleep(Duration::from_millis(20));
            }
            result => return result,
        }
    }
    start()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read as _, Seek as _};
    use std::os::fd::AsRawFd as _;
    use std::os::unix::fs::{MetadataExt as _, symlink};
    use std::process::Command;

    #[test]
    fn a_new_file_has_the_usual_permissions() {
        let folder = tempfile::tempdir().unwrap();
        let place = |name: &str| folder.path().join(name);
        let mode = |name: &str| fs::metadata(place(name)).unwrap().mode();
        fs::write(place("usual"), "").unwrap();
        write_atomically(&place("atomic"), b"x").unwrap();
        write_durably(&place("durable"), b"x").unwrap();
        assert_eq!((mode("atomic"), mode("durable")), (mode("usual"), mode("usual")));
    }

    #[test]
    fn a_link_stays_and_its_target_is_written() {
        let folder = tempfile::tempdir().unwrap();
        let place = |name: &str| folder.path().join(name);
        fs::create_dir(place("dist")).unwrap();
        symlink("dist/a", place("link")).unwrap();
        symlink("link", place("further")).unwrap();
        for text in ["first, without a target", "second"] {
            write_atomically(&place("further"), text.as_bytes()).unwrap();
            assert_eq!(fs::read_to_string(place("dist/a")).unwrap(), text);
        }
        assert!(place("link").is_symlink() && place("further").is_symlink());
        assert!(!place("dist/a").is_symlink());
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 3, "nothing is left");
    }

    #[test]
    fn pipes_and_open_files_are_not_replaced() {
        let folder = tempfile::tempdir().unwrap();
        let pipe = folder.path().join("pipe");
        assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
        let reader = thread::spawn({
            let pipe = pipe.clone();
            move || fs::read_to_string(pipe)
        });
        write_atomically(&pipe, b"through it").unwrap();
        assert_eq!(reader.join().unwrap().unwrap(), "through it");
        assert!(!fs::metadata(&pipe).unwrap().is_file());
        assert!(write_atomically(folder.path(), b"x").is_err());
        // Like `/dev/stdout` of a program whose output goes to a file.
        let mut open = tempfile::tempfile_in(folder.path()).unwrap();
        let path = format!("/proc/self/fd/{}", open.as_raw_fd());
        write_atomically(Path::new(&path), b"opened ").unwrap();
        write_atomically(Path::new(&path), b"before").unwrap();
        let mut text = String::new();
        open.rewind().unwrap();
        open.read_to_string(&mut text).unwrap();
        assert_eq!(text, "opened before");
    }
}
