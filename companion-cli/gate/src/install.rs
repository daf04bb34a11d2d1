//! Copies the running program into a folder, so that another image can use it.

use std::fs::{self, File, Permissions};
use std::io::{self, Read as _, Seek as _};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

const NAME: &str = "laststream";

#[derive(Debug, thiserror::Error)]
pub enum InstallError {
    #[error("`{}` is not a folder: create it, or mount a volume there", .0.display())]
    NoFolder(PathBuf),
    #[error(
        "`{}` is a folder, so the program cannot be written there: remove or rename it",
        .0.display()
    )]
    Taken(PathBuf),
    #[error("the running program cannot be read: {0}")]
    Read(io::Error),
    #[error("cannot write into `{}`: {error}", folder.display())]
    Write { folder: PathBuf, error: io::Error },
}

/// A copy of this program.
#[derive(Debug)]
pub struct Installed {
    pub path: PathBuf,
    /// Whether it needs libraries that the other image may not have.
    pub needs_libraries: bool,
}

/// Copies this program into the folder. An older copy is replaced atomically, even while it runs.
pub fn install(folder: &Path) -> Result<Installed, InstallError> {
    if !folder.is_dir() {
        return Err(InstallError::NoFolder(folder.to_owned()));
    }
    let path = folder.join(NAME);
    if path.is_dir() {
        return Err(InstallError::Taken(path));
    }
    let mut program = open().map_err(InstallError::Read)?;
    let needs_libraries = has_interpreter(&mut program).map_err(InstallError::Read)?;
    let write = |error| InstallError::Write { folder: folder.to_owned(), error };
    let mut copy =
        tempfile::Builder::new().prefix(".laststream-").tempfile_in(folder).map_err(write)?;
    io::copy(&mut program, copy.as_file_mut()).map_err(write)?;
    fs::set_permissions(copy.path(), Permissions::from_mode(0o755)).map_err(write)?;
    copy.as_file().sync_all().map_err(write)?;
    copy.persist(&path).map_err(|error| write(error.error))?;
    Ok(Installed { path, needs_libraries })
}

/// Opens the running program. On Linux this works even if another file has taken its name since.
fn open() -> io::Result<File> {
    File::open("/proc/self/exe").or_else(|_| File::open(std::env::current_exe()?))
}

/// Whether the program needs a dynamic loader. This is read from ELF files of 64 bits in little
/// endian, the only ones that we make; other files need one on macOS.
fn has_interpreter(program: &mut File) -> io::Result<bool> {
    const INTERPRETER: u32 = 3; // PT_INTERP
    let mut head = Vec::new();
    program.by_ref().take(4096).read_to_end(&mut head)?;
    program.rewind()?;
    let number = |at: usize, size: usize| {
        let bytes = head.get(at..at + size).unwrap_or_default();
        bytes.iter().rev().fold(0, |number: usize, byte| number << 8 | usize::from(*byte))
    };
    if !head.starts_with(b"\x7fELF\x02\x01") {
        return Ok(cfg!(target_os = "macos"));
    }
    let (table, size, count) = (number(32, 8), number(54, 2), number(56, 2));
    Ok((0..count)
        .any(|index| number(table.saturating_add(index * size), 4) == INTERPRETER as usize))
}
