//! Child processes that never outlive this one. [`run`] waits for the end of a short one;
//! [`Process`] is a long-running one.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, Read, Seek};
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::OnceLock;
use std::sync::mpsc::{Sender, channel};
use std::time::{Duration, Instant};

use crate::env_vars;

type Reply = Sender<io::Result<Child>>;

/// The kernel ends a guarded process with the *thread* that started it, so one thread that never
/// ends starts them all.
static SPAWNER: OnceLock<Sender<(Command, Reply)>> = OnceLock::new();

/// A process that ends with this value. It is in a process group of its own, so that Ctrl-C in the
/// terminal is for this program alone.
#[derive(Debug)]
pub(crate) struct Process {
    child: Child,
    status: Option<ExitStatus>,
}

impl Process {
    /// `guard` is the beginning of a command whose rest is one that is to end when this process
    /// does; it may be empty. Of this program's own environment variables the new process has those
    /// that `secret` names, and no other.
    pub(crate) fn start(
        guard: &[OsString],
        program: &Path,
        arguments: &[OsString],
        secret: Option<(&str, &str)>,
        log: &File,
    ) -> io::Result<Self> {
        let mut words = guard.iter().map(OsString::as_os_str).chain([program.as_os_str()]);
        let mut command = env_vars::command(words.next().unwrap_or(OsStr::new("")));
        command.args(words).args(arguments).envs(secret);
        command
            .process_group(0)
            .stdin(Stdio::null())
            .stdout(log.try_clone()?)
            .stderr(log.try_clone()?);
        let (reply, answer) = channel();
        let gone = || io::Error::other("the thread that starts programs has ended");
        SPAWNER.get_or_init(start_spawner).send((command, reply)).map_err(|_| gone())?;
        let child = answer.recv().map_err(|_| gone())??;
        Ok(Self { child, status: None })
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// How it ended, if it has.
    pub(crate) fn ended(&mut self) -> Option<ExitStatus> {
        if self.status.is_none() {
            self.status = self.child.try_wait().ok().flatten();
        }
        self.status
    }

    /// SIGKILL, and it has gone when this returns. Nothing for one that has ended.
    pub(crate) fn kill(&mut self) {
        if self.ended().is_none() {
            self.status = end(&mut self.child);
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.kill();
    }
}

fn start_spawner() -> Sender<(Command, Reply)> {
    let (sender, commands) = channel::<(Command, Reply)>();
    std::thread::spawn(move || {
        for (mut command, reply) in commands {
            let _ = reply.send(start(&mut command)); // the caller may have given up
        }
    });
    sender
}

fn end(child: &mut Child) -> Option<ExitStatus> {
    let _ = child.kill(); // fails only for a program that has ended
    child.wait().ok()
}

/// The limit on a program's output.
const LARGEST_OUTPUT: u64 = 256 << 10;

/// A program that ended.
pub(crate) struct ProgramOutput {
    pub(crate) success: bool,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

/// Why a program has no exit status.
pub(crate) enum ProgramError {
    /// It did not start.
    Start(io::Error),
    /// It was still running after this time, and was killed.
    Time(Duration),
}

/// Runs a program. While it runs, `tick` is called several times a second.
///
/// Its output goes to unnamed files: with pipes, a grandchild that outlives the program would hold
/// them, and with them the reader.
pub(crate) fn run(
    command: &mut Command,
    limit: Duration,
    tick: &mut dyn FnMut(),
) -> Result<ProgramOutput, ProgramError> {
    let mut stdout = tempfile::tempfile().map_err(ProgramError::Start)?;
    let mut stderr = tempfile::tempfile().map_err(ProgramError::Start)?;
    command.stdin(Stdio::null());
    command.stdout(stdout.try_clone().map_err(ProgramError::Start)?);
    command.stderr(stderr.try_clone().map_err(ProgramError::Start)?);
    let mut child = start(command).map_err(ProgramError::Start)?;
    let began = Instant::now();
    let mut pause = Duration::from_millis(1);
    let status = loop {
        match child.try_wait() {
            Ok(Some(status)) => break status,
            Ok(None) if began.elapsed() < limit => {}
            Ok(None) => {
                end(&mut child);
                return Err(ProgramError::Time(limit));
            }
            Err(error) => {
                end(&mut child);
                return Err(ProgramError::Start(error));
            }
        }
        tick();
        std::thread::sleep(pause);
        pause = (pause * 2).min(Duration::from_millis(100));
    };
    Ok(ProgramOutput {
        success: status.success(),
        stdout: read_output(&mut stdout),
        stderr: read_output(&mut stderr),
    })
}

/// A file that was just written can be busy: a child that another thread starts at that moment
/// holds it open until its own exec.
fn start(command: &mut Command) -> io::Result<Child> {
    for _ in 0..100 {
        match command.spawn() {
            Err(error) if error.kind() == io::ErrorKind::ExecutableFileBusy => {
                std::thread::sleep(Duration::from_millis(20))
            }
            result => return result,
        }
    }
    command.spawn()
}

fn read_output(file: &mut File) -> String {
    let mut bytes = Vec::new();
    // What cannot be read was not heard; the exit status stands for itself.
    let _ = file.rewind().and_then(|()| file.take(LARGEST_OUTPUT).read_to_end(&mut bytes));
    String::from_utf8_lossy(&bytes).into_owned()
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
    fn keeps_both_outputs_and_the_status() {
        let Ok(ended) =
            run(&mut shell("echo out; echo err >&2; exit 3"), Duration::from_secs(10), &mut || {})
        else {
            panic!()
        };
        assert_eq!(
            (ended.success, ended.stdout.as_str(), ended.stderr.as_str()),
            (false, "out\n", "err\n")
        );
    }

    #[test]
    fn a_silent_program_is_killed_and_a_grandchild_does_not_hold_us() {
        let began = Instant::now();
        assert!(matches!(
            run(&mut shell("sleep 30"), Duration::from_millis(200), &mut || {}),
            Err(ProgramError::Time(_))
        ));
        assert!(
            run(&mut shell("sleep 30 & echo done"), Duration::from_secs(10), &mut || {})
                .is_ok_and(|ended| ended.stdout == "done\n")
        );
        assert!(began.elapsed() < Duration::from_secs(10), "{:?}", began.elapsed());
    }
}
