//! Long-running child processes that never outlive this one. [`laststream_base::children`] has the
//! short-lived ones.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::OnceLock;
use std::sync::mpsc::{Sender, channel};

use laststream_base::env_vars;
use laststream_base::files::when_not_busy;

type Reply = Sender<io::Result<Child>>;

/// The kernel ends a guarded process with the *thread* that started it, so one thread that never
/// ends starts them all.
static SPAWNER: OnceLock<Sender<(Command, Reply)>> = OnceLock::new();

/// A process that ends when this value is dropped. It is in a separate process group, so that
/// Ctrl-C in the terminal reaches this program alone.
#[derive(Debug)]
pub(crate) struct Process {
    child: Child,
    status: Option<ExitStatus>,
}

impl Process {
    /// `guard` is a command that runs the program and ends it with this process; it may be empty.
    /// The new process does not inherit this program's secrets; it gets only the variable in
    /// `secret`.
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
        let thread_error = || io::Error::other("the thread that starts programs has ended");
        SPAWNER.get_or_init(start_spawner).send((command, reply)).map_err(|_| thread_error())?;
        let child = answer.recv().map_err(|_| thread_error())??;
        Ok(Self { child, status: None })
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// The exit status, if the process has ended.
    pub(crate) fn ended(&mut self) -> Option<ExitStatus> {
        if self.status.is_none() {
            self.status = self.child.try_wait().ok().flatten();
        }
        self.status
    }

    /// Sends SIGKILL, and returns when the process has ended. Does nothing if it has ended already.
    pub(crate) fn kill(&mut self) {
        if self.ended().is_none() {
            let _ = self.child.kill(); // fails only for a program that has ended
            self.status = self.child.wait().ok();
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
            let _ = reply.send(when_not_busy(|| command.spawn())); // the caller may have given up
        }
    });
    sender
}
