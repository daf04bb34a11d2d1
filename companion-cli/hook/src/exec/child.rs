//! The command as a child process: started without a shell; signals are forwarded to it.

use std::ffi::OsString;
use std::io;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::Command;

use rustix::process::{Pid, Signal, kill_process};

use super::reaper::Reaper;
use super::signals::{Event, Signals};
use laststream_base::env_vars;

#[derive(Debug, thiserror::Error)]
#[error("`{}` {}", Path::new(.command).display(), self.why())]
pub(crate) struct NotStarted {
    command: OsString,
    error: io::Error,
}

impl NotStarted {
    /// The exit code that shells give: 127 if there is no such command, else 126.
    pub(crate) fn code(&self) -> u8 {
        if self.error.kind() == io::ErrorKind::NotFound { 127 } else { 126 }
    }

    fn why(&self) -> String {
        match self.error.kind() {
            io::ErrorKind::NotFound => {
                "was not found, or the interpreter in its first line was not".into()
            }
            _ => format!(
                "cannot be run: {}; no shell is involved here, for its syntax name one: `sh -c \
                    '…'`",
                self.error
            ),
        }
    }
}

pub(crate) struct Child(Pid);

impl Child {
    pub(crate) fn start(command: &[OsString]) -> Result<Self, NotStarted> {
        Self::spawn(command, |_| {})
    }

    /// Starts the command in a process group of its own, which signals of the terminal do not
    /// reach.
    pub(crate) fn start_apart(command: &[OsString]) -> Result<Self, NotStarted> {
        Self::spawn(command, |command| {
            command.process_group(0);
        })
    }

    fn spawn(command: &[OsString], prepare: impl Fn(&mut Command)) -> Result<Self, NotStarted> {
        let (program, arguments) = command
            .split_first()
            .map_or((OsString::new(), &[][..]), |(program, rest)| (program.clone(), rest));
        let failed = |error| NotStarted { command: program.clone(), error };
        // Dropping std's handle neither waits nor kills.
        let mut child = env_vars::command(&program);
        prepare(child.args(arguments));
        let child = child.spawn().map_err(failed)?;
        let pid = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
        pid.map(Self).ok_or_else(|| failed(io::Error::other("the kernel gave it no usable pid")))
    }

    pub(crate) fn pid(&self) -> Pid {
        self.0
    }

    /// Sends a signal. Nothing happens if the command has ended and is not reaped.
    pub(crate) fn signal(&self, signal: Signal) {
        let _ = kill_process(self.0, signal);
    }

    /// Waits until the command ends, forwards signals to it, and returns its exit code.
    pub(crate) fn wait(&self, signals: &Signals, reaper: &mut Reaper) -> u8 {
        loop {
            // Checked first: the child may have ended before the signal handler was installed. Its
            // pid cannot be reused before it is reaped.
            if let Some(code) = reaper.reap(Some(self.0)) {
                return code;
            }
            match signals.next() {
                Some(Event::Signal(signal)) => self.signal(signal),
                Some(Event::FromTerminal(_) | Event::Child) => {}
                None => return reaper.wait(self.0),
            }
        }
    }
}
