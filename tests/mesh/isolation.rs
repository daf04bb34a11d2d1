//! Namespaces of its own for each level: processes, network, mounts. Programs in them use fixed
//! ports and absolute paths, and end with the first process.
//!
//! Nothing is left behind, however the run ends. The first process inside holds the read end of a
//! pipe whose other end is outside. When that end closes, even by SIGKILL, the first process ends,
//! and the kernel ends all other processes. All files are in a tmpfs that only the namespace sees.

use std::io::{self, BufRead as _, BufReader, Read, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode, ExitStatus, Stdio};
use std::{env, fs, thread};

use rustix::process::{WaitOptions, geteuid, wait};

use crate::parts::{PARTS, Parts};
use crate::role::{LEVEL, ROLE};
use crate::sweeper::Sweeper;
use kit::prelude::*;

/// The variable with the name of the run's cgroup, for levels that make cgroups.
pub(crate) const CGROUP: &str = "LASTSTREAM_MESH_CGROUP";

const VAR_LIB: &str = "/var/lib";
/// The folder in which Istio's agent keeps modules: a path in its source, which its image has.
const MODULES: &str = "/var/lib/istio/data";
const TEMPORARY: &str = "/var/lib/laststream";

/// Runs the level of this name in separate namespaces, with the arguments of this process.
pub(crate) fn run(level: &str, makes_cgroups: bool, parts: &Parts) -> Outcome<ExitCode> {
    ensure_visible(parts)?;
    let mut command = Command::new("unshare");
    command.args(["--net", "--mount", "--pid", "--ipc", "--uts"]);
    command.args(["--fork", "--kill-child", "--mount-proc"]);
    if !geteuid().is_root() {
        run_tool("unshare", &["--user", "--map-root-user", "true"])
            .context("this level needs user namespaces, or root")?;
        command.args(["--user", "--map-root-user"]);
    }
    command.arg("--").arg(env::current_exe()?).args(env::args_os().skip(1));
    command.env(ROLE, "init").env(LEVEL, level).env(PARTS, parts.json()).stdin(Stdio::piped());
    command.stdout(Stdio::piped());
    let sweeper = makes_cgroups.then(Sweeper::start).transpose()?;
    if let Some(sweeper) = &sweeper {
        command.env(CGROUP, sweeper.cgroup());
    }
    let mut child = command.spawn().context("unshare, of util-linux")?;
    let lifeline = child.stdin.take(); // `wait` would close it
    if let Some(output) = child.stdout.take() {
        print_lines(output)?;
    }
    let status = child.wait()?;
    drop(lifeline);
    if let Some(sweeper) = sweeper {
        sweeper.sweep()?;
    }
    Ok(code(status))
}

/// Prints whole lines, because several levels print at the same time.
fn print_lines(output: impl Read) -> io::Result<()> {
    for line in BufReader::new(output).split(b'\n') {
        let mut line = line?;
        line.push(b'\n');
        io::stdout().lock().write_all(&line)?;
    }
    Ok(())
}

/// Checks that no needed path is below [`VAR_LIB`], which the tmpfs hides.
fn ensure_visible(parts: &Parts) -> Outcome {
    let this = env::current_exe()?;
    for path in parts.paths().chain([this.as_path(), Path::new(env!("CARGO_MANIFEST_DIR"))]) {
        ensure!(
            !path.starts_with(VAR_LIB),
            "{} is needed, and the mesh has a {VAR_LIB} of its own: choose another folder",
            path.display()
        );
    }
    Ok(())
}

/// The first process in the namespaces: sets them up, then reaps processes that end, until the
/// process that runs the cases ends.
pub(crate) fn init() -> ExitCode {
    thread::spawn(|| {
        io::stdin().read_to_end(&mut Vec::new()).ok();
        std::process::exit(1); // the outermost process has gone
    });
    match set_up().and_then(|()| runner()) {
        Ok(runner) => wait_for(&runner),
        Err(failure) => {
            say(&format!("setting the namespaces up: {failure:#}"));
            ExitCode::FAILURE
        }
    }
}

fn set_up() -> Outcome {
    run_tool("mount", &["-t", "tmpfs", "-o", "mode=755", "laststream", VAR_LIB])?;
    fs::create_dir_all(MODULES)?;
    fs::create_dir_all(TEMPORARY)?;
    run_tool("ip", &["link", "set", "lo", "up"])
}

/// Runs a program of the machine, which must succeed.
pub(crate) fn run_tool(program: &str, arguments: &[&str]) -> Outcome {
    let output = Command::new(program)
        .args(arguments)
        .stdin(Stdio::null())
        .output()
        .with_context(|| format!("`{program}`, which this machine must have"))?;
    ensure!(
        output.status.success(),
        "{program} {}: {}",
        arguments.join(" "),
        String::from_utf8_lossy(&output.stderr).trim_end()
    );
    Ok(())
}

fn runner() -> Outcome<Child> {
    let mut command = Command::new(env::current_exe()?);
    command
        .args(env::args_os().skip(1))
        .env(ROLE, "level")
        .env("TMPDIR", TEMPORARY)
        .stdin(Stdio::null());
    command.spawn().map_err(Error::from)
}

/// Waits for the process that runs the cases. Orphans become children of the first process of a
/// namespace, and stay as zombies unless it waits for them.
fn wait_for(runner: &Child) -> ExitCode {
    loop {
        match wait(WaitOptions::empty()) {
            Ok(Some((pid, status))) if pid.as_raw_nonzero().get().unsigned_abs() == runner.id() => {
                return status
                    .exit_status()
                    .and_then(|code| u8::try_from(code).ok())
                    .map_or(ExitCode::FAILURE, ExitCode::from);
            }
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(_) => return ExitCode::FAILURE,
        }
    }
}

fn code(status: ExitStatus) -> ExitCode {
    status.code().and_then(|code| u8::try_from(code).ok()).map_or(ExitCode::FAILURE, ExitCode::from)
}

/// Creates a folder in the tmpfs, which disappears with the namespaces.
pub(crate) fn folder(name: &str) -> Outcome<PathBuf> {
    let folder = env::temp_dir().join(name);
    fs::create_dir_all(&folder).with_context(|| folder.display().to_string())?;
    Ok(folder)
}
