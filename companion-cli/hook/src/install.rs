//! `install`: copies the running program into a folder, so that another image can use it.

use std::fs::{self, File, Permissions};
use std::io::{self, Read as _, Seek as _};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use clap::Args;
use laststream_base::causes::Context as _;

use crate::{Ended, Exit, Printer};

/// The name of the copy, whichever of the two programs it is.
const NAME: &str = "laststream";

/// Copies this program into a folder and prints the path of the copy. For an init container with a
/// volume that the other containers mount.
#[derive(Debug, Args)]
#[command(
    after_help = "Example:\n  laststream install /tools\n\nExit codes: 0 done, 2 there is no copy, \
        64 wrong arguments."
)]
pub struct Install {
    /// The folder to copy to.
    #[arg(value_name = "DIR")]
    folder: PathBuf,
}

/// Runs `install`.
///
/// # Errors
/// There is no copy.
pub fn run(command: &Install, printer: &Printer) -> Ended {
    let installed = install(&command.folder)?;
    if installed.needs_libraries {
        printer.warning(
            &"this build of laststream needs the C library of this image; a static one runs in \
            every image",
        );
    }
    printer.stdout(&installed.path.display().to_string());
    Ok(Exit::Fine)
}

/// A copy of this program.
struct Installed {
    path: PathBuf,
    /// Whether it needs libraries that the other image may not have.
    needs_libraries: bool,
}

/// Copies this program into the folder. An older copy is replaced atomically, even while it runs.
fn install(folder: &Path) -> Result<Installed, String> {
    if !folder.is_dir() {
        let folder = folder.display();
        return Err(format!("`{folder}` is not a folder: create it, or mount a volume there"));
    }
    let path = folder.join(NAME);
    if path.is_dir() {
        return Err(format!(
            "`{}` is a folder, so the program cannot be written there: remove or rename it",
            path.display()
        ));
    }
    let reading = "the running program cannot be read";
    let mut program = open().context(reading)?;
    let needs_libraries = has_interpreter(&mut program).context(reading)?;
    let message = format!("cannot write into `{}`", folder.display());
    copy(&mut program, folder, &path).context(message)?;
    Ok(Installed { path, needs_libraries })
}

fn copy(program: &mut File, folder: &Path, path: &Path) -> io::Result<()> {
    let mut copy = tempfile::Builder::new().prefix(".laststream-").tempfile_in(folder)?;
    io::copy(program, copy.as_file_mut())?;
    fs::set_permissions(copy.path(), Permissions::from_mode(0o755))?;
    copy.as_file().sync_all()?;
    copy.persist(path)?;
    Ok(())
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
