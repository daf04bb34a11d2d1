//! The `laststream` command as a user runs it: the program itself, in its own home directory.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use serde_json::Value;
use tempfile::TempDir;

use crate::command::{CommandOutput, run, run_with_input};
use crate::process::guarded;
use crate::{Context as _, Error, Outcome, workspace};

type Built = OnceLock<Result<PathBuf, String>>;

/// The path of the program. Cargo gives it only to the tests of `companion-cli`, as
/// `CARGO_BIN_EXE_laststream`. For all other tests `cargo build` builds it, with the settings of
/// the tests, unless a variable names another one: of a release, or for another machine.
pub fn laststream() -> Outcome<&'static Path> {
    static LASTSTREAM: Built = Built::new();
    program("laststream", "LASTSTREAM_TEST_PROGRAM", &LASTSTREAM)
}

/// The small program for stop hooks and Jobs, in the same way.
pub fn hook() -> Outcome<&'static Path> {
    static HOOK: Built = Built::new();
    program("laststream-hook", "LASTSTREAM_TEST_HOOK", &HOOK)
}

fn program(name: &str, variable: &str, built: &'static Built) -> Outcome<&'static Path> {
    let built = built.get_or_init(|| match std::env::var_os(variable) {
        Some(path) => Ok(path.into()),
        None => build(name).map_err(|error| format!("{error:#}")),
    });
    built.as_deref().map_err(Error::msg)
}

fn build(program: &str) -> Outcome<PathBuf> {
    let this = std::env::current_exe()?;
    let profile = this
        .parent()
        .and_then(Path::parent)
        .context("this program is not where cargo puts tests")?;
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.current_dir(workspace());
    // Without `--package`, dependencies have the features that the tests have compiled them with.
    command.args(["build", "--quiet", "--bin", program]);
    command
        .args(["--message-format", "json-render-diagnostics", "--target-dir"])
        .arg(profile.parent().context("no target folder")?);
    // ring is compiled anew when cargo's variables about a package change, so those of the test's
    // package are removed.
    let of_package = ["OUT_DIR", "CARGO_PKG_", "CARGO_MANIFEST_"];
    for (name, _) in std::env::vars_os() {
        if of_package.iter().any(|prefix| name.to_string_lossy().starts_with(prefix)) {
            command.env_remove(name);
        }
    }
    match profile.file_name().and_then(|name| name.to_str()) {
        Some("debug") | None => {}
        Some(name) => drop(command.args(["--profile", name])),
    }
    let messages = run(&mut command)?.expect(0)?.stdout;
    let mut programs = messages.lines().filter_map(|line| {
        serde_json::from_str::<Value>(line).ok()?["executable"].as_str().map(PathBuf::from)
    });
    programs.next_back().context("cargo names no program")
}

/// A user: a home directory and environment variables.
pub struct User {
    home: TempDir,
    variables: Vec<(String, OsString)>,
}

impl User {
    /// The program is built now, so that no case waits for the build while its times run.
    pub fn new() -> Outcome<Self> {
        laststream()?;
        let home = tempfile::tempdir()?;
        fs::create_dir_all(home.path().join("bin"))?;
        let path = format!("{}:/usr/bin:/bin", home.path().join("bin").display());
        let variables = vec![("HOME".into(), home.path().into()), ("PATH".into(), path.into())];
        Ok(Self { home, variables })
    }

    pub fn set(&mut self, name: &str, value: impl Into<OsString>) {
        self.variables.push((name.to_owned(), value.into()));
    }

    /// A file in the home.
    pub fn file(&self, name: &str, content: impl AsRef<[u8]>) -> Outcome<PathBuf> {
        let path = self.home.path().join(name);
        fs::create_dir_all(path.parent().context("a folder")?)?;
        fs::write(&path, content).with_context(|| path.display().to_string())?;
        Ok(path)
    }

    /// A file in the home, as an argument of a command.
    pub fn argument(&self, name: &str, content: impl AsRef<[u8]>) -> Outcome<String> {
        self.file(name, content)?.into_os_string().into_string().ok().context("a path in UTF-8")
    }

    /// A script on the user's PATH.
    pub fn program(&self, name: &str, script: &str) -> Outcome {
        write_script(&self.path("bin").join(name), script)
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.home.path().join(name)
    }

    /// A command in the home, with the user's variables alone.
    pub fn command(&self, program: impl AsRef<OsStr>) -> Command {
        let mut command = guarded(program);
        command
            .env_clear()
            .envs(self.variables.iter().map(|(name, value)| (name, value)))
            .current_dir(self.home.path());
        command
    }

    /// Runs `laststream` with these arguments.
    pub fn run(&self, arguments: &[&str], input: &str) -> Outcome<CommandOutput> {
        run_with_input(self.command(laststream()?).args(arguments), input)
    }
}

/// An executable shell script at this path.
pub fn write_script(path: &Path, text: &str) -> Outcome {
    write_executable(path, &format!("#!/bin/sh\n{text}\n"))
}

/// An executable file, and the folders above it.
pub fn write_executable(path: &Path, content: &str) -> Outcome {
    fs::create_dir_all(path.parent().context("a folder")?)?;
    fs::write(path, content).with_context(|| path.display().to_string())?;
    Ok(fs::set_permissions(path, fs::Permissions::from_mode(0o755))?)
}
