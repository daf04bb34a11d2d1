//! Commands that run to their end: how one ended, and what it wrote.

use std::io::Write as _;
use std::panic::Location;
use std::process::{Command, Output, Stdio};
use std::thread;

use serde_json::Value;

use crate::{Context as _, Outcome, ensure};

/// How a command ended. The checks return it, so that they chain; their errors name the line of
/// the test and show everything.
#[derive(Clone, Debug)]
pub struct CommandOutput {
    /// None after a signal.
    pub code: Option<i32>,
    pub stdout: String,
    pub stderr: String,
}

/// Runs a command; without input, if it has none of its own.
pub fn run(command: &mut Command) -> Outcome<CommandOutput> {
    let output = command.output().with_context(|| name(command))?;
    CommandOutput::of(output)
}

/// Runs a command that reads this, or less.
pub fn run_with_input(command: &mut Command, input: &str) -> Outcome<CommandOutput> {
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().with_context(|| name(command))?;
    let mut stdin = child.stdin.take().context("its input")?;
    let input = input.to_owned();
    // From a thread of its own: the command may write more than a pipe holds before it has read
    // all. It need not read all.
    let writer = thread::spawn(move || drop(stdin.write_all(input.as_bytes())));
    let output = child.wait_with_output()?;
    drop(writer.join());
    CommandOutput::of(output)
}

fn name(command: &Command) -> String {
    command.get_program().display().to_string()
}

impl CommandOutput {
    fn of(Output { status, stdout, stderr }: Output) -> Outcome<Self> {
        let text = |bytes| String::from_utf8(bytes).context("the output is no UTF-8");
        Ok(Self { code: status.code(), stdout: text(stdout)?, stderr: text(stderr)? })
    }

    #[track_caller]
    pub fn expect(self, code: i32) -> Outcome<Self> {
        let caller = Location::caller();
        ensure!(self.code == Some(code), "{caller}: expected the exit code {code}, not {self:#?}");
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

    /// Neither output may contain this.
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
