//! Short-lived child programs (pip, cargo, cosign, credential helpers) and their temporary folders:
//! both end with this process, even if a signal ends it. Long-running children are in
//! `local::process`.

use std::fs;
use std::io::{self, Read as _, Seek as _, SeekFrom};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{self, ChildStdin, ChildStdout, Command, ExitStatus, Output, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, WaitOptions, kill_process, kill_process_group, waitpid};
use signal_hook::consts::{SIGHUP, SIGINT, SIGQUIT, SIGTERM};
use signal_hook::iterator::Signals;
use signal_hook::low_level::emulate_default_handler;
use tempfile::TempDir;

use crate::{env_vars, files};

/// Child processes and temporary folders that end with this process.
struct Running {
    children: Vec<(Pid, Group)>,
    folders: Vec<PathBuf>,
}

/// Locked while a child starts or is reaped, so that no other process can have its pid.
static RUNNING: Mutex<Running> = Mutex::new(Running { children: vec![], folders: vec![] });
/// Whether SIGHUP, SIGINT and SIGTERM end this process.
static ENDS_AT_SIGNALS: AtomicBool = AtomicBool::new(false);
/// The time to wait for an ended program or a removed folder to be gone.
const PATIENCE: Duration = Duration::from_secs(1);
/// The limit on a program's output in bytes. Only the end is kept, because it says what went wrong.
const LARGEST_OUTPUT: u64 = 256 << 10;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Group {
    /// A group of its own: processes that the child starts, such as cargo's compilers, end with it.
    /// It cannot read from the terminal.
    Own,
    /// The group of this program: the child may ask for a password at the terminal.
    Shared,
}

fn running() -> MutexGuard<'static, Running> {
    RUNNING.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Makes signals that end this process end its children and remove their folders first. A signal
/// that is ignored, as under `nohup`, stays ignored.
pub fn end_at_signals() -> io::Result<()> {
    let mut signals = Signals::new(not_ignored(&[SIGHUP, SIGINT, SIGQUIT, SIGTERM]))?;
    ENDS_AT_SIGNALS.store(true, Ordering::Relaxed);
    thread::Builder::new().name("children".into()).spawn(move || {
        for signal in signals.forever() {
            // SIGQUIT has no other handler.
            if ENDS_AT_SIGNALS.load(Ordering::Relaxed) || signal == SIGQUIT {
                // Locked to the end: no other child can start, and no thread can report the killed
                // ones.
                let mut running = running();
                running.end();
                // A signal's default action does not end process 1 of a container.
                if process::id() != 1 {
                    let _ = emulate_default_handler(signal);
                }
                process::exit(128 + signal);
            }
        }
    })?;
    Ok(())
}

/// The signals of this list that are not ignored. Without /proc none is known to be ignored.
pub fn not_ignored(signals: &[i32]) -> Vec<i32> {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let ignored = mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    let ignored = ignored.unwrap_or_default();
    signals.iter().copied().filter(|signal| ignored & (1 << (signal - 1)) == 0).collect()
}

/// Leaves SIGHUP, SIGINT and SIGTERM to other handlers. SIGQUIT still ends this process.
pub fn leave_signals() {
    ENDS_AT_SIGNALS.store(false, Ordering::Relaxed);
}

/// Ends the children and removes their folders. Call it at the end of this process.
pub fn end() {
    running().end();
}

impl Running {
    fn end(&mut self) {
        for (pid, group) in self.children.drain(..) {
            // The calls fail only for a program that has ended.
            let _ = match group {
                Group::Own => kill_process_group(pid, Signal::KILL),
                // The program may have to restore the terminal.
                Group::Shared => kill_process(pid, Signal::TERM),
            };
            if !has_ended(pid) {
                let _ = kill_process(pid, Signal::KILL);
                has_ended(pid);
            }
        }
        for folder in self.folders.drain(..) {
            // A grandchild may end later than its parent, and write until then.
            until(|| fs::remove_dir_all(&folder).is_ok() || !folder.exists());
        }
    }
}

fn has_ended(pid: Pid) -> bool {
    until(|| !matches!(waitpid(Some(pid), WaitOptions::NOHANG), Ok(None)))
}

fn until(mut is_done: impl FnMut() -> bool) -> bool {
    let deadline = Instant::now() + PATIENCE;
    loop {
        let is_over = is_done();
        if is_over || Instant::now() > deadline {
            return is_over;
        }
        thread::sleep(Duration::from_millis(5));
    }
}

/// A temporary folder that is removed even if a signal ends this process.
#[derive(Debug)]
pub struct Scratch(TempDir);

impl Scratch {
    /// Makes the folder, unless the process is about to end.
    pub fn new(make: impl FnOnce() -> io::Result<TempDir>) -> io::Result<Self> {
        let mut running = running();
        let folder = make()?;
        running.folders.push(folder.path().to_owned());
        Ok(Self(folder))
    }

    pub fn path(&self) -> &Path {
        self.0.path()
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let mut running = running();
        // `TempDir` tries again when it is dropped. A folder that stays only uses disk space.
        let _ = fs::remove_dir_all(self.path());
        running.folders.retain(|folder| folder != self.path());
    }
}

/// A child process that is ended when this value is dropped.
#[derive(Debug)]
pub struct Child {
    child: process::Child,
    pid: Option<Pid>,
    group: Group,
}

impl Child {
    /// Starts the command, unless the process is about to end.
    pub fn start(command: &mut Command, group: Group) -> io::Result<Self> {
        if group == Group::Own {
            command.process_group(0);
        }
        env_vars::hide_secrets(command);
        let mut running = running();
        let child = files::when_not_busy(|| command.spawn())?;
        let pid = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
        running.children.extend(pid.map(|pid| (pid, group)));
        Ok(Self { child, pid, group })
    }

    /// Its input, once.
    pub fn take_stdin(&mut self) -> Option<ChildStdin> {
        self.child.stdin.take()
    }

    /// Its output, once.
    pub fn take_stdout(&mut self) -> Option<ChildStdout> {
        self.child.stdout.take()
    }

    /// The exit status, if the child has ended.
    fn ended(&mut self) -> io::Result<Option<ExitStatus>> {
        let mut running = running();
        let status = self.child.try_wait()?;
        if status.is_some() {
            running.children.retain(|(pid, _)| Some(*pid) != self.pid);
        }
        Ok(status)
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        if let Ok(None) = self.ended() {
            // The calls fail only for a program that has ended.
            let _ = match (self.group, self.pid) {
                (Group::Own, Some(pid)) => {
                    kill_process_group(pid, Signal::KILL).map_err(Into::into)
                }
                _ => self.child.kill(),
            };
            until(|| !matches!(self.ended(), Ok(None)));
        }
    }
}

/// The reason why a program has no exit status.
pub enum ProgramError {
    /// The program did not start, or its status could not be read.
    Start(io::Error),
    /// The program was still running after this time, and was killed.
    Time(Duration),
}

/// Runs a program in a separate process group. While it runs, `tick` is called several times a
/// second.
///
/// Its output goes to unnamed files: a grandchild that outlives the program would keep pipes open,
/// and block the reader.
pub fn run(
    command: &mut Command,
    limit: Duration,
    tick: &mut dyn FnMut(),
) -> Result<Output, ProgramError> {
    let (mut stdout, mut stderr) = (unnamed_file()?, unnamed_file()?);
    command.stdin(Stdio::null());
    command.stdout(stdout.try_clone().map_err(ProgramError::Start)?);
    command.stderr(stderr.try_clone().map_err(ProgramError::Start)?);
    let status =
        wait(Child::start(command, Group::Own).map_err(ProgramError::Start)?, limit, tick)?;
    Ok(Output { status, stdout: written(&mut stdout), stderr: written(&mut stderr) })
}

/// Runs a program to its end, without input.
pub fn output(command: &mut Command) -> io::Result<Output> {
    run(command, Duration::MAX, &mut || {}).map_err(io_error)
}

/// Runs a program to its end, in the process group of this one and with its terminal.
pub fn status(command: &mut Command) -> io::Result<ExitStatus> {
    wait(Child::start(command, Group::Shared)?, Duration::MAX, &mut || {}).map_err(io_error)
}

fn io_error(error: ProgramError) -> io::Error {
    match error {
        ProgramError::Start(error) => error,
        ProgramError::Time(_) => io::ErrorKind::TimedOut.into(),
    }
}

/// Waits until the child has ended. After this time it is killed. While it runs, `tick` is called
/// several times a second.
pub fn wait(
    mut child: Child,
    limit: Duration,
    tick: &mut dyn FnMut(),
) -> Result<ExitStatus, ProgramError> {
    let began = Instant::now();
    let mut pause = Duration::from_millis(1);
    loop {
        if let Some(status) = child.ended().map_err(ProgramError::Start)? {
            return Ok(status);
        }
        if began.elapsed() >= limit {
            return Err(ProgramError::Time(limit));
        }
        tick();
        thread::sleep(pause);
        pause = (pause * 2).min(Duration::from_millis(100));
    }
}

/// The error has the kind `Other`, so that it is not mistaken for a missing program.
fn unnamed_file() -> Result<fs::File, ProgramError> {
    tempfile::tempfile().map_err(|error| {
        let folder = std::env::temp_dir();
        let folder = folder.display();
        let message = format!("cannot make a temporary file in `{folder}` (`TMPDIR`): {error}");
        ProgramError::Start(io::Error::other(message))
    })
}

fn written(file: &mut fs::File) -> Vec<u8> {
    let mut bytes = Vec::new();
    // Output that cannot be read is left out: the exit status is enough.
    let length = file.metadata().map_or(0, |about| about.len());
    let from = SeekFrom::Start(length.saturating_sub(LARGEST_OUTPUT));
    let _ = file.seek(from).and_then(|_| file.take(LARGEST_OUTPUT).read_to_end(&mut bytes));
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str) -> Command {
        let mut command = Command::new("/bin/sh");
        command.args(["-c", script]);
        command
    }

    #[test]
    fn secrets_are_not_inherited() {
        let mut command = shell("env");
        for name in env_vars::SECRETS {
            command.env(name, "hunter2");
        }
        let ended = output(command.env("KEPT", "yes")).unwrap();
        let seen = String::from_utf8(ended.stdout).unwrap();
        assert!(seen.contains("KEPT=yes") && !seen.contains("hunter2"), "{seen}");
    }

    #[test]
    fn the_end_of_a_long_output_is_kept() {
        let ended = output(&mut shell("yes line | head -c 300000; echo; echo last")).unwrap();
        assert!(ended.stdout.ends_with(b"last\n"), "{} bytes", ended.stdout.len());
    }

    #[test]
    fn a_silent_program_is_killed_and_a_grandchild_does_not_delay_the_result() {
        let began = Instant::now();
        assert!(matches!(
            run(&mut shell("sleep 30"), Duration::from_millis(200), &mut || {}),
            Err(ProgramError::Time(_))
        ));
        let ended = output(&mut shell("sleep 30 & echo done")).unwrap();
        assert_eq!(ended.stdout, b"done\n");
        assert!(began.elapsed() < Duration::from_secs(10), "{:?}", began.elapsed());
    }

    #[test]
    fn a_program_that_ignores_sigterm_is_killed_and_its_folder_removed() {
        let folder = tempfile::tempdir().unwrap();
        let ready = folder.path().join("ready");
        let script = format!("trap '' TERM; : >'{}'; exec sleep 60", ready.display());
        let mut child = shell(&script).spawn().unwrap();
        let pid = Pid::from_child(&child);
        assert!((0..10).any(|_| until(|| ready.exists())));
        let folders = vec![folder.path().to_owned()];
        Running { children: vec![(pid, Group::Shared)], folders }.end();
        assert!(child.wait().is_err(), "it is reaped");
        assert!(!folder.path().exists());
    }
}
