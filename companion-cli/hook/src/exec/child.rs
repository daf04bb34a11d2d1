//! The command as a child process: started without a shell; signals are forwarded to it.

use std::ffi::OsString;
use std::io;
use std::path::Path;

use rustix::process::{Pid, kill_process};

use super::reaper::Reaper;
use super::signals::{Event, Signals};
use laststream_base::env_vars;

#[derive(Debug, thiserror::Error)]
#[error("`{}` {}", Path::new(.command).display(), self.why())]
pub(super) struct NotStarted {
    command: OsString,
    error: io::Error,
}

impl NotStarted {
    /// The exit code that shells give: 127 if there is no such command, else 126.
    pub(super) fn code(&self) -> u8 {
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

pub(super) struct Child(Pid);

impl Child {
    pub(super) fn start(command: &[OsString]) -> Result<Self, NotStarted> {
        let (program, arguments) = command
            .split_first()
            .map_or((OsString::new(), &[][..]), |(program, rest)| (program.clone(), rest));
        let failed = |error| NotStarted { command: program.clone(), error };
        // Dropping std's handle neither waits nor kills.
        let child = env_vars::command(&program).args(arguments).spawn().map_err(failed)?;
        let pid = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
        pid.map(Self).ok_or_else(|| failed(io::Error::other("the kernel gave it no usable pid")))
    }

    /// Waits until the command ends, forwards signals to it, and returns its exit code.
    pub(super) fn wait(&self, signals: &Signals, reaper: &mut Reaper) -> u8 {
        loop {
            // Checked first: the child may have ended before the signal handler was installed. Its
            // pid cannot be reused before it is reaped.
            if let Some(code) = reaper.reap(Some(self.0)) {
                return code;
            }
            match signals.next() {
                // fails if the command has ended
                Some(Event::Signal(signal)) => drop(kill_process(self.0, signal)),
                Some(Event::FromTerminal(_) | Event::Child) => {}
                None => return reaper.wait(self.0),
            }
        }
    }
}
