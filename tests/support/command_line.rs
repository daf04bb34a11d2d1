//! The `laststream` command as a user has it: the program itself, in a home of its own.

use std::ffi::OsString;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;

use serde_json::Value;
use tempfile::TempDir;

use super::failure::{Context as _, Failure, Outcome, ensure, fail};
use super::process::guarded;

static BINARY: OnceLock<Result<PathBuf, String>> = OnceLock::new();

/// Cargo tells only the tests of the same package where a program is, so it is asked to build it,
/// with the settings of this test.
pub(crate) fn binary() -> Outcome<&'static Path> {
    let built = BINARY.get_or_init(|| build().map_err(|failure| failure.to_string()));
    built.as_deref().map_err(Failure::new)
}

fn build() -> Outcome<PathBuf> {
    let this = std::env::current_exe()?;
    let profile = this
        .parent()
        .and_then(Path::parent)
        .context("this program is not where cargo puts tests")?;
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.current_dir(env!("CARGO_MANIFEST_DIR")).args([
        "build",
        "--quiet",
        "--package",
        "laststream",
        "--bin",
        "laststream",
    ]);
    command
        .args(["--message-format", "json-render-diagnostics", "--target-dir"])
        .arg(profile.parent().context("no target folder")?);
    // ring looks at what cargo says of the package that it is compiled for, and would be compiled
    // anew for the test.
    for (name, _) in std::env::vars_os() {
        if name.to_str().is_some_and(|name| {
            name == "OUT_DIR"
                || name.starts_with("CARGO_PKG_")
                || name.starts_with("CARGO_MANIFEST_")
        }) {
            command.env_remove(name);
        }
    }
    match profile.file_name().and_then(|name| name.to_str()) {
        Some("debug") | None => {}
        Some(name) => drop(command.args(["--profile", name])),
    }
    let output = command.output().context("starting cargo")?;
    ensure!(output.status.success(), "cargo build: {}", String::from_utf8_lossy(&output.stderr));
    let messages = String::from_utf8_lossy(&output.stdout).into_owned();
    let mut programs = messages.lines().filter_map(|line| {
        serde_json::from_str::<Value>(line).ok()?["executable"].as_str().map(PathBuf::from)
    });
    programs.next_back().context("cargo names no program")
}

/// A user: a home, and what is set in it.
pub(crate) struct User {
    home: TempDir,
    variables: Vec<(String, OsString)>,
}

/// What a command said.
#[derive(Debug)]
pub(crate) struct Said {
    pub(crate) code: Option<i32>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl User {
    pub(crate) fn new() -> Outcome<Self> {
        let home = tempfile::tempdir()?;
        fs::create_dir_all(home.path().join("bin"))?;
        let path = format!("{}:/usr/bin:/bin", home.path().join("bin").display());
        let variables = vec![("HOME".into(), home.path().into()), ("PATH".into(), path.into())];
        Ok(Self { home, variables })
    }

    pub(crate) fn set(&mut self, name: &str, value: impl Into<OsString>) {
        self.variables.push((name.to_owned(), value.into()));
    }

    /// A file in the home.
    pub(crate) fn file(&self, name: &str, content: impl AsRef<[u8]>) -> Outcome<PathBuf> {
        let path = self.home.path().join(name);
        fs::create_dir_all(path.parent().context("a folder")?)?;
        fs::write(&path, content).with_context(|| path.display().to_string())?;
        Ok(path)
    }

    /// A script on the user's PATH.
    pub(crate) fn program(&self, name: &str, script: &str) -> Outcome {
        let path = self.file(&format!("bin/{name}"), format!("#!/bin/sh\n{script}\n"))?;
        Ok(fs::set_permissions(path, fs::Permissions::from_mode(0o755))?)
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.home.path().join(name)
    }

    /// Runs `laststream` with these arguments.
    pub(crate) fn run(&self, arguments: &[&str], input: &str) -> Outcome<Said> {
        use std::io::Write as _;
        let mut command = guarded(binary()?);
        command
            .args(arguments)
            .env_clear()
            .envs(self.variables.iter().map(|(name, value)| (name, value)))
            .current_dir(self.home.path());
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().context("starting laststream")?;
        // it need not read it
        child.stdin.take().context("its input")?.write_all(input.as_bytes()).ok();
        let output = child.wait_with_output()?;
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        Ok(Said {
            code: output.status.code(),
            stdout: text(&output.stdout),
            stderr: text(&output.stderr),
        })
    }
}

impl Said {
    /// It must have ended so.
    pub(crate) fn expect(self, code: i32) -> Outcome<Self> {
        if self.code != Some(code) {
            fail!("expected the exit code {code}, not {self:#?}");
        }
        Ok(self)
    }

    /// People must have been told this.
    pub(crate) fn tells(self, text: &str) -> Outcome<Self> {
        ensure!(self.stderr.contains(text), "`{text}` is not in {self:#?}");
        Ok(self)
    }

    /// Nobody must have been told this.
    pub(crate) fn hides(self, secret: &str) -> Outcome<Self> {
        ensure!(
            !self.stderr.contains(secret) && !self.stdout.contains(secret),
            "`{secret}` is in {self:#?}"
        );
        Ok(self)
    }

    /// The lines of standard output as JSON.
    pub(crate) fn json(&self) -> Outcome<Vec<Value>> {
        self.stdout
            .lines()
            .map(|line| serde_json::from_str(line).with_context(|| format!("{self:#?}")))
            .collect()
    }
}
