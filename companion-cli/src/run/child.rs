//! Envoy's process: in a process group of its own, so that Ctrl-C in the terminal is ours alone, and never left behind.

use std::ffi::OsString;
use std::fs::File;
use std::io;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{self, Command, ExitStatus, Stdio};
use std::sync::OnceLock;
use std::sync::mpsc::{Sender, channel};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use super::PAUSE;

type Reply = Sender<io::Result<process::Child>>;

/// The kernel ends a guarded process with the *thread* that started it, so one thread that never ends starts them all.
static SPAWNER: OnceLock<Sender<(Command, Reply)>> = OnceLock::new();

/// A process that ends with this value.
#[derive(Debug)]
pub(super) struct Child {
    process: process::Child,
    ended: Option<ExitStatus>,
}

impl Child {
    pub(super) fn spawn(program: &Path, arguments: &[OsString], guard: &[OsString], log: &File) -> io::Result<Self> {
        let mut words = guard.iter().map(OsString::as_os_str).chain([program.as_os_str()]);
        let mut command = Command::new(words.next().unwrap_or(program.as_os_str()));
        command.args(words);
        command.args(arguments).process_group(0).stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log.try_clone()?);
        let (reply, answer) = channel();
        let gone = || io::Error::other("the thread that starts programs has ended");
        SPAWNER.get_or_init(start_spawner).send((command, reply)).map_err(|_| gone())?;
        let process = answer.recv().map_err(|_| gone())??;
        Ok(Self { process, ended: None })
    }

    pub(super) fn pid(&self) -> u32 {
        self.process.id()
    }

    /// How it ended, if it has.
    pub(super) fn ended(&mut self) -> Option<ExitStatus> {
        if self.ended.is_none() {
            self.ended = self.process.try_wait().ok().flatten();
        }
        self.ended
    }

    /// SIGTERM; and if that does not help in time, SIGKILL.
    pub(super) fn terminate(&mut self, patience: Duration) {
        let asked = Instant::now();
        // Only while it runs: nobody else can have its pid before it is reaped.
        if self.ended().is_none()
            && let Some(pid) = i32::try_from(self.pid()).ok().and_then(Pid::from_raw)
        {
            let _ = kill_process(pid, Signal::TERM); // it may end at this very moment
        }
        while self.ended().is_none() && asked.elapsed() < patience {
            std::thread::sleep(PAUSE);
        }
        self.kill();
    }

    pub(super) fn kill(&mut self) {
        if self.ended().is_none() {
            let _ = self.process.kill(); // fails only for a process that has ended
            self.ended = self.process.wait().ok();
        }
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        self.kill();
    }
}

fn start_spawner() -> Sender<(Command, Reply)> {
    let (sender, commands) = channel::<(Command, Reply)>();
    std::thread::spawn(move || {
        for (mut command, reply) in commands {
            let _ = reply.send(command.spawn()); // whoever asked has given up
        }
    });
    sender
}
