//! Commands that run to their end, with their exit codes and outputs.

use std::io::Write as _;
use std::panic::Location;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::process::Captured;
use crate::{Context as _, Outcome, bail, ensure};

/// The time limit of a command; the slowest ones compile a program on a busy machine.
const LIMIT: Duration = Duration::from_secs(600);
const PAUSE: Duration = Duration::from_millis(2);

/// The exit code and the outputs of a command. The checks return it, so that they chain; their
/// errors name the line of the test and show all fields.
#[derive(Clone, Debug)]
pub struct CommandOutput {
    /// None after a signal.
    pub code: Option<i32>,
    pub stdout: String,
    pub stderr: String,
}

/// Runs a command without input.
pub fn run(command: &mut Command) -> Outcome<CommandOutput> {
    run_reading(command, Stdio::null())
}

/// Runs a command with this standard input.
pub fn run_reading(command: &mut Command, stdin: impl Into<Stdio>) -> Outcome<CommandOutput> {
    wait(spawn(command, stdin.into())?, &name(command), LIMIT)
}

/// Runs a command with this input, which it need not read to the end.
pub fn run_with_input(command: &mut Command, input: &str) -> Outcome<CommandOutput> {
    run_with_input_for(command, input, LIMIT)
}

/// Like [`run_with_input`], with a time limit.
pub fn run_with_input_for(
    command: &mut Command,
    input: &str,
    limit: Duration,
) -> Outcome<CommandOutput> {
    let mut child = spawn(command, Stdio::piped())?;
    let mut stdin = child.stdin.take().context("its input")?;
    let input = input.to_owned();
    // A separate thread writes, because the command may write more than a pipe holds before it has
    // read everything. Errors are ignored, because it need not read everything.
    thread::spawn(move || drop(stdin.write_all(input.as_bytes())));
    wait(child, &name(command), limit)
}

fn spawn(command: &mut Command, stdin: Stdio) -> Outcome<Child> {
    command.stdin(stdin).stdout(Stdio::piped()).stderr(Stdio::piped());
    command.spawn().with_context(|| name(command))
}

/// Waits until the command and both of its outputs have ended, and kills it at the limit.
fn wait(mut child: Child, name: &str, limit: Duration) -> Outcome<CommandOutput> {
    let deadline = Instant::now() + limit;
    let stdout = Captured::of(child.stdout.take());
    let stderr = Captured::of(child.stderr.take());
    loop {
        if let Some(status) = child.try_wait()?
            && stdout.is_whole()
            && stderr.is_whole()
        {
            return CommandOutput::of(status, stdout.bytes(), stderr.bytes());
        }
        if Instant::now() >= deadline {
            child.kill().ok(); // it may have ended, and a descendant holds an output
            child.wait()?;
            let (stdout, stderr) = (stdout.text(), stderr.text());
            bail!("{name} did not end within {limit:?}; stdout: {stdout}\nstderr: {stderr}");
        }
        thread::sleep(PAUSE);
    }
}

fn name(command: &Command) -> String {
    command.get_program().display().to_string()
}

impl CommandOutput {
    fn of(status: ExitStatus, stdout: Vec<u8>, stderr: Vec<u8>) -> Outcome<Self> {
        let text = |bytes| String::from_utf8(bytes).context("the output is no UTF-8");
        Ok(Self { code: status.code(), stdout: text(stdout)?, stderr: text(stderr)? })
    }

    #[track_caller]
    pub fn expect(self, code: i32) -> Outcome<Self> {
        let caller = Location::caller();
        let said = self.stderr.lines().last().unwrap_or("nothing");
        ensure!(
            self.code == Some(code),
            "{caller}: expected the exit code {code}, but the last words are `{said}`: {self:#?}"
        );
        Ok(self)
    }

    #[track_caller]
    pub fn stdout_contains(self, text: &str) -> Outcome<Self> {
        let caller = Location::caller();
        ensure!(self.stdout.contains(text), "{caller}: `{text}` is not in stdout of {self:#?}");
        Ok(self)
    }

    #[track_caller]
    pub fn stderr_contains(self, text: &str) -> Outcome<Self> {
        let caller = Location::caller();
        ensure!(self.stderr.contains(text), "{caller}: `{text}` is not in stderr of {self:#?}");
        Ok(self)
    }

    /// Checks that neither output contains this text.
    #[track_caller]
    pub fn hides(self, secret: &str) -> Outcome<Self> {
        let caller = Location::caller();
        let is_hidden = !self.stderr.contains(secret) && !self.stdout.contains(secret);
        ensure!(is_hidden, "{caller}: `{secret}` is in {self:#?}");
        Ok(self)
    }

    /// Standard output as one JSON document.
    pub fn json(&self) -> Outcome<Value> {
        serde_json::from_str(&self.stdout).with_context(|| format!("{self:#?}"))
    }

    /// Standard output as a JSON document in each line.
    pub fn json_lines(&self) -> Outcome<Vec<Value>> {
        self.stdout
            .lines()
            .map(|line| serde_json::from_str(line).with_context(|| format!("{self:#?}")))
            .collect()
    }
}
