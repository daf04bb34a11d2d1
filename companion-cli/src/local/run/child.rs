//! Envoy's process: in a process group of its own, so that Ctrl-C in the terminal is ours alone, and never left behind.

use std::ffi::OsString;
use std::fs::File;
use std::io;
use std::os::unix::process::CommandExt as _;
use std::process::{self, Command, ExitStatus, Stdio};
use std::sync::OnceLock;
use std::sync::mpsc::{Sender, channel};

use super::Setup;
use crate::env_vars::{self, LASTSTREAM_SECRET};

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
    /// The gate has its secret from Envoy's environment, which holds no other of ours.
    pub(super) fn spawn(setup: &Setup, arguments: &[OsString], log: &File) -> io::Result<Self> {
        let program = setup.envoy.as_os_str();
        let mut words = setup.guard.iter().map(OsString::as_os_str).chain([program]);
        let mut command = env_vars::command(words.next().unwrap_or(program));
        command.args(words);
        if let Some(secret) = &setup.secret {
            command.env(LASTSTREAM_SECRET, secret.reveal());
        }
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
