//! A process that never outlives the tests: killed with its owner, and by the kernel when the test
//! process itself dies.

use std::ffi::OsStr;
use std::fs;
use std::io::Read;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex, OnceLock};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process, kill_process_group};

use crate::command::CommandOutput;
use crate::programs::which;
use crate::wait::{wait_for, wait_for_blocking};
use crate::{Context as _, Outcome, bail, ensure, locked};

type Reply = Sender<std::io::Result<Child>>;

/// The kernel sends the parent's death signal when the *thread* that spawned ends, so one thread
/// that never ends spawns for all.
static SPAWNER: OnceLock<Sender<(Command, Reply)>> = OnceLock::new();

/// The log of a process; empty if it cannot be read.
pub fn read_log(file: &Path) -> String {
    fs::read(file).map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).unwrap_or_default()
}

/// The end of a log, after the errors and warnings that came before it.
pub fn tail<'l>(lines: impl DoubleEndedIterator<Item = &'l str>) -> String {
    const LAST: usize = 40;
    const LEVELS: [&str; 5] = ["error", "critical", "warn", "warning", "fatal"];
    let is_trouble =
        |line: &&String| line.split(['\t', '[', ']']).any(|word| LEVELS.contains(&word));
    let cut = |line: &str| line.chars().take(600).collect::<String>();
    let mut lines = lines.rev().map(cut);
    let mut last: Vec<String> = lines.by_ref().take(LAST).collect();
    let mut trouble: Vec<String> = lines.filter(|line| is_trouble(&line)).take(LAST).collect();
    last.reverse();
    trouble.reverse();
    if !trouble.is_empty() {
        trouble.insert(0, "its errors and warnings before that:".into());
        trouble.push(String::new());
    }
    format!("{}the end of its log:\n{}", trouble.join("\n"), last.join("\n"))
}

/// A command whose process dies with this one: `setpriv` of util-linux arms the signal and becomes
/// the program, under the same pid. No signal is ignored in it: the parent of the tests may ignore
/// some, as `nohup` does, and a shell for jobs in the background.
pub fn guarded(program: impl AsRef<OsStr>) -> Command {
    // Their paths are found here, because the command may have its own PATH.
    let [setpriv, env] = ["setpriv", "env"].map(|name| which(name).unwrap_or_else(|| name.into()));
    let mut command = Command::new(setpriv);
    command.args(["--pdeathsig", "KILL", "--"]).arg(env).arg("--default-signal").arg(program);
    command
}

/// A guarded copy of a command.
fn guard(command: &Command) -> Command {
    let mut guarded = guarded(command.get_program());
    guarded.args(command.get_args());
    for (name, value) in command.get_envs() {
        match value {
            Some(value) => guarded.env(name, value),
            None => guarded.env_remove(name),
        };
    }
    if let Some(folder) = command.get_current_dir() {
        guarded.current_dir(folder);
    }
    guarded
}

/// A running process. Outputs that are pipes are read while it runs.
pub struct Process {
    child: Child,
    stdout: Captured,
    stderr: Captured,
    lines_read: usize,
    /// Whether it leads its own process group, whose other members end with it.
    leads_group: bool,
}

impl Process {
    /// Starts a command from [`guarded`].
    pub fn spawn(command: Command) -> Outcome<Self> {
        let program = command.get_program().to_os_string();
        let (reply, answer) = channel();
        SPAWNER
            .get_or_init(start_spawner)
            .send((command, reply))
            .context("handing a command to the spawner thread")?;
        let mut child = answer
            .recv()
            .context("waiting for the spawner thread")?
            .with_context(|| format!("starting {}", program.display()))?;
        let (stdout, stderr) =
            (Captured::of(child.stdout.take()), Captured::of(child.stderr.take()));
        Ok(Self { child, stdout, stderr, lines_read: 0, leads_group: false })
    }

    /// Starts a command from [`guarded`] in its own process group: its child processes end with it.
    pub fn spawn_group(mut command: Command) -> Outcome<Self> {
        command.process_group(0);
        let mut process = Self::spawn(command)?;
        process.leads_group = true;
        Ok(process)
    }

    /// Starts a guarded copy of a command in its own process group, as a shell does, without input
    /// and with both outputs captured.
    pub fn capture(command: &Command) -> Outcome<Self> {
        let mut command = guard(command);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        Self::spawn_group(command)
    }

    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Its standard output so far.
    pub fn stdout(&self) -> String {
        self.stdout.text()
    }

    /// Its standard error so far.
    pub fn stderr(&self) -> String {
        self.stderr.text()
    }

    /// Waits for the next line of its output.
    #[track_caller]
    pub fn next_line(&mut self) -> Outcome<String> {
        let line = wait_for_blocking("a line", || {
            let text = self.stdout();
            let whole = text.split_inclusive('\n').nth(self.lines_read);
            let line = whole.and_then(|line| line.strip_suffix('\n'));
            Ok(line.with_context(|| text.clone())?.to_owned())
        })?;
        self.lines_read += 1;
        Ok(line)
    }

    /// Writes to its standard input, which must be a pipe.
    pub fn write(&mut self, text: &str) -> Outcome {
        let stdin = self.child.stdin.as_mut().context("its input is no pipe")?;
        Ok(std::io::Write::write_all(stdin, text.as_bytes())?)
    }

    /// The exit status, once there is one.
    pub fn exited(&mut self) -> Outcome<Option<ExitStatus>> {
        self.child.try_wait().context("asking for the exit status")
    }

    pub async fn wait(&mut self, limit: Duration) -> Outcome<ExitStatus> {
        let pid = self.pid();
        wait_for(limit, &format!("process {pid} to end"), async || {
            self.exited()?.context("still running")
        })
        .await
    }

    /// Waits for its end, in a test that blocks.
    #[track_caller]
    pub fn finish(&mut self) -> Outcome<CommandOutput> {
        let status =
            wait_for_blocking("its end", || self.exited()?.with_context(|| self.stderr()))?;
        Ok(CommandOutput {
            code: status.code(),
            stdout: self.stdout.whole()?,
            stderr: self.stderr.whole()?,
        })
    }

    /// Signals the process, only while it runs: no other process can have its pid before it is
    /// reaped.
    pub fn signal(&mut self, signal: Signal) -> Outcome {
        if let Some(status) = self.exited()? {
            bail!("process {} already ended: {status}", self.pid());
        }
        kill_process(self.rustix_pid()?, signal).context("sending a signal")
    }

    /// Signals its group, as a terminal does.
    pub fn signal_group(&self, signal: Signal) -> Outcome {
        Ok(kill_process_group(self.rustix_pid()?, signal)?)
    }

    fn rustix_pid(&self) -> Outcome<Pid> {
        i32::try_from(self.pid()).ok().and_then(Pid::from_raw).context("no usable pid")
    }

    pub fn kill(&mut self) -> Outcome<ExitStatus> {
        self.child.kill().context("killing")?;
        Ok(self.child.wait()?)
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // Errors are ignored: the process has ended already, or nothing more can be done.
        if self.leads_group && matches!(self.exited(), Ok(None)) {
            self.signal_group(Signal::KILL).ok();
        }
        self.kill().ok();
    }
}

fn start_spawner() -> Sender<(Command, Reply)> {
    let (sender, commands) = channel::<(Command, Reply)>();
    thread::spawn(move || {
        for (mut command, reply) in commands {
            reply.send(command.spawn()).ok(); // the owner has given up
        }
    });
    sender
}

/// An output, read by a thread.
#[derive(Default)]
pub(crate) struct Captured {
    bytes: Arc<Mutex<Vec<u8>>>,
    reader: Option<JoinHandle<()>>,
}

impl Captured {
    pub(crate) fn of(output: Option<impl Read + Send + 'static>) -> Self {
        let Some(mut output) = output else { return Self::default() };
        let bytes = Arc::<Mutex<Vec<u8>>>::default();
        let into = Arc::clone(&bytes);
        let reader = thread::spawn(move || {
            let mut buffer = [0; 4096];
            while let Ok(count @ 1..) = output.read(&mut buffer) {
                locked(&into).extend(&buffer[..count]);
            }
        });
        Self { bytes, reader: Some(reader) }
    }

    pub(crate) fn bytes(&self) -> Vec<u8> {
        locked(&self.bytes).clone()
    }

    pub(crate) fn text(&self) -> String {
        String::from_utf8_lossy(&self.bytes()).into_owned()
    }

    /// Whether its writers have ended, and all of it was read.
    pub(crate) fn is_whole(&self) -> bool {
        self.reader.as_ref().is_none_or(JoinHandle::is_finished)
    }

    /// The whole output, once its writers have ended. A descendant may hold the pipe open, so the
    /// wait has a limit.
    fn whole(&self) -> Outcome<String> {
        wait_for_blocking("the end of an output", || {
            ensure!(self.is_whole(), "{}", self.text());
            Ok(())
        })?;
        Ok(self.text())
    }
}
