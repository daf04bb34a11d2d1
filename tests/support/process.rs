//! Processes that never outlive the tests: killed with their owner, and by the kernel when the test
//! process itself dies.

use std::ffi::OsStr;
use std::process::{Child, Command, ExitStatus};
use std::sync::OnceLock;
use std::sync::mpsc::{Sender, channel};
use std::thread;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};

use super::failure::{Context, Failure, Outcome, fail};
use super::trial::wait_for;

type Reply = Sender<std::io::Result<Child>>;

/// The kernel sends the parent's death signal when the *thread* that spawned ends, so one thread
/// that never ends spawns for all.
static SPAWNER: OnceLock<Sender<(Command, Reply)>> = OnceLock::new();

/// A command whose process dies with this one: `setpriv` of util-linux arms the signal and becomes
/// the program, under the same pid.
pub(crate) fn guarded(program: impl AsRef<OsStr>) -> Command {
    let mut command = Command::new("setpriv");
    command.args(["--pdeathsig", "KILL", "--"]).arg(program);
    command
}

pub(crate) struct Process {
    child: Child,
}

impl Process {
    /// Starts what [`guarded`] made.
    pub(crate) fn spawn(command: Command) -> Outcome<Self> {
        let program = command.get_program().to_os_string();
        let (reply, answer) = channel();
        SPAWNER
            .get_or_init(start_spawner)
            .send((command, reply))
            .context("handing a command to the spawner thread")?;
        let child = answer
            .recv()
            .context("waiting for the spawner thread")?
            .with_context(|| format!("starting {}", program.display()))?;
        Ok(Self { child })
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// The exit status, once there is one.
    pub(crate) fn exited(&mut self) -> Outcome<Option<ExitStatus>> {
        self.child.try_wait().context("asking for the exit status")
    }

    pub(crate) async fn wait(&mut self, limit: Duration) -> Outcome<ExitStatus> {
        let pid = self.pid();
        wait_for(limit, &format!("process {pid} to end"), async || {
            self.exited()?.context("still running")
        })
        .await
    }

    /// Only while it runs: nobody else can have its pid before it is reaped.
    pub(crate) fn signal(&mut self, signal: Signal) -> Outcome {
        if let Some(status) = self.exited()? {
            fail!("process {} already ended: {status}", self.pid());
        }
        let pid =
            i32::try_from(self.pid()).ok().and_then(Pid::from_raw).context("no usable pid")?;
        kill_process(pid, signal).context("sending a signal")
    }

    pub(crate) fn terminate(&mut self) -> Outcome {
        self.signal(Signal::TERM)
    }

    pub(crate) fn kill(&mut self) -> Outcome<ExitStatus> {
        self.child.kill().context("killing")?;
        self.child.wait().map_err(Failure::from)
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.kill().ok(); // it is gone already, or nothing more can be done
    }
}

fn start_spawner() -> Sender<(Command, Reply)> {
    let (sender, commands) = channel::<(Command, Reply)>();
    thread::spawn(move || {
        for (mut command, reply) in commands {
            reply.send(command.spawn()).ok(); // whoever asked has given up
        }
    });
    sender
}
