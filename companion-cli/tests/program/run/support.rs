//! A run: started, asked, ended, and never left behind.

use std::path::{Path, PathBuf};
use std::process::Command;

use kit::command::CommandOutput;
use kit::prelude::*;
use kit::process::Process;
use kit::wait::{PATIENCE, blocking, until, wait_for_blocking};
use rustix::process::{Pid, Signal, test_kill_process};
use tempfile::TempDir;

/// A `laststream run` in a separate process group, as a shell starts it.
pub(crate) struct Run {
    process: Process,
    places: Value,
    folder: TempDir,
}

impl Run {
    /// Starts a run, and waits until it is ready.
    pub(crate) fn start(arguments: &[&str]) -> Outcome<Self> {
        Self::start_in(tempfile::tempdir()?, arguments)
    }

    /// Starts it in this folder, which becomes the current one.
    pub(crate) fn start_in(folder: TempDir, arguments: &[&str]) -> Outcome<Self> {
        Self::start_with(folder, arguments, &[])
    }

    /// Starts it in a folder with this `policy.yaml`.
    pub(crate) fn start_with_policy(policy: &str, arguments: &[&str]) -> Outcome<Self> {
        let arguments = [&["--policy", "policy.yaml"], arguments].concat();
        Self::start_in(folder_with_policy(policy)?, &arguments)
    }

    /// Starts it with these variables, too.
    pub(crate) fn start_with(
        folder: TempDir,
        arguments: &[&str],
        variables: &[(&str, &str)],
    ) -> Outcome<Self> {
        let command = command(folder.path(), arguments, variables);
        Self::start_command(folder, &command)
    }

    /// Starts it as `nohup` does.
    pub(crate) fn start_with_nohup() -> Outcome<Self> {
        let folder = tempfile::tempdir()?;
        let run = command(folder.path(), &[], &[]);
        let mut nohup = Command::new("nohup");
        nohup.current_dir(folder.path()).arg(run.get_program()).args(run.get_args());
        for (name, value) in run.get_envs() {
            match value {
                Some(value) => nohup.env(name, value),
                None => nohup.env_remove(name),
            };
        }
        Self::start_command(folder, &nohup)
    }

    fn start_command(folder: TempDir, command: &Command) -> Outcome<Self> {
        let mut process = Process::capture(command)?;
        let places = wait_for_blocking("the run to be ready", || {
            if process.exited()?.is_some() {
                return Ok(Value::Null);
            }
            serde_json::from_str(&process.stdout()).with_context(|| process.stderr())
        })?;
        ensure!(places.is_object(), "it did not start: {}", process.stderr());
        Ok(Self { process, places, folder })
    }

    pub(crate) fn folder(&self) -> &Path {
        self.folder.path()
    }

    pub(crate) fn place(&self, name: &str) -> SocketAddr {
        self.places[name].as_str().unwrap().strip_prefix("http://").unwrap().parse().unwrap()
    }

    pub(crate) fn envoy(&self) -> Pid {
        Pid::from_raw(i32::try_from(self.places["pid"].as_u64().unwrap()).unwrap()).unwrap()
    }

    pub(crate) fn log(&self) -> PathBuf {
        self.places["log"].as_str().unwrap().into()
    }

    pub(crate) fn stderr(&self) -> String {
        self.process.stderr()
    }

    /// A request through Envoy, on a separate connection.
    pub(crate) fn get(&self, path: &str) -> Outcome<Response> {
        get(self.place("listener"), path)
    }

    /// An answer of Envoy's admin interface.
    pub(crate) fn admin(&self, path: &str) -> Outcome<Value> {
        get(self.place("admin"), path)?.json()
    }

    /// The gate's status.
    pub(crate) fn status(&self) -> Outcome<Value> {
        get(self.place("gate"), "/status")?.json()
    }

    /// As Ctrl-C in a terminal: the whole group receives it.
    pub(crate) fn interrupt(&self) -> Outcome {
        self.process.signal_group(Signal::INT)
    }

    /// Only the command receives it.
    pub(crate) fn signal(&mut self, signal: Signal) -> Outcome {
        self.process.signal(signal)
    }

    pub(crate) fn wait_for_stderr(&self, text: &str) -> Outcome {
        wait_for_stderr(&self.process, text)
    }

    /// Waits until this field of the gate's status has this value.
    pub(crate) fn wait_for_status(&self, pointer: &str, expected: impl Into<Value>) -> Outcome {
        let expected = expected.into();
        wait_for_blocking(pointer, || {
            let status = self.status()?;
            ensure_eq!(status.pointer(pointer), Some(&expected), "{status}");
            Ok(())
        })
    }

    pub(crate) fn wait_for_in_flight(&self, streams: u64) -> Outcome {
        self.wait_for_status("/holding", streams)
    }

    pub(crate) fn until_envoy_is_gone(&self) -> Outcome {
        until("Envoy to be gone", || test_kill_process(self.envoy()).is_err())
    }

    /// Waits for the end.
    pub(crate) fn finish(&mut self) -> Outcome<CommandOutput> {
        let output = self.process.finish()?;
        self.until_envoy_is_gone()?;
        Ok(output)
    }
}

fn command(folder: &Path, arguments: &[&str], variables: &[(&str, &str)]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_laststream"));
    command.current_dir(folder).args(["run", "--output", "json"]).args(arguments);
    command
        .env_remove("LASTSTREAM_ENVOY")
        .env("HTTP_PROXY", "http://127.0.0.1:9")
        .env("TMPDIR", folder)
        .envs(variables.iter().copied());
    command
}

fn wait_for_stderr(process: &Process, text: &str) -> Outcome {
    wait_for_blocking(text, || {
        ensure!(process.stderr().contains(text), "{}", process.stderr());
        Ok(())
    })
}

/// A request on a separate connection.
pub(crate) fn get(to: SocketAddr, path: &str) -> Outcome<Response> {
    send(to, &Request::get(path))
}

pub(crate) fn send(to: SocketAddr, request: &Request) -> Outcome<Response> {
    let request = request.clone().host("localhost");
    blocking(async { Client::connect(to).await?.patience(PATIENCE).request(&request).await })
}

/// A run that must fail.
pub(crate) fn fails(
    folder: &Path,
    arguments: &[&str],
    variables: &[(&str, &str)],
) -> Outcome<CommandOutput> {
    Process::capture(&command(folder, arguments, variables))?.finish()
}

/// The same, with SIGINT for its group once it has written this text.
pub(crate) fn fails_when_interrupted(
    folder: &Path,
    variables: &[(&str, &str)],
    text: &str,
) -> Outcome<CommandOutput> {
    let mut process = Process::capture(&command(folder, &[], variables))?;
    wait_for_stderr(&process, text)?;
    process.signal_group(Signal::INT)?;
    process.finish()
}

pub(crate) fn folder_with_policy(policy: &str) -> Outcome<TempDir> {
    let folder = tempfile::tempdir()?;
    std::fs::write(folder.path().join("policy.yaml"), policy)?;
    Ok(folder)
}

/// Writes the builtin module as a file, with a custom section: other bytes that do the same.
pub(crate) fn module(path: &Path, more: u8) {
    let mut bytes = laststream_module::builtin().unwrap().to_vec();
    bytes.extend([0, 6, 5, b'o', b't', b'h', b'e', more]);
    put(path, &bytes);
}

/// A proxy-wasm module that refuses every configuration of fewer bytes.
pub(crate) fn unwilling(bytes: u32) -> Vec<u8> {
    let text = r#"(module
        (memory (export "memory") 1)
        (func (export "proxy_abi_version_0_2_1"))
        (func (export "proxy_on_memory_allocate") (param i32) (result i32) (i32.const 1024))
        (func (export "proxy_on_context_create") (param i32 i32))
        (func (export "proxy_on_vm_start") (param i32 i32) (result i32) (i32.const 1))
        (func (export "proxy_on_configure") (param i32 i32) (result i32)
            (i32.ge_u (local.get 1) (i32.const BYTES))))"#;
    wat::parse_str(text.replace("BYTES", &bytes.to_string())).unwrap()
}

/// Replaces a file as editors do.
pub(crate) fn put(path: &Path, bytes: &[u8]) {
    let fresh = path.with_extension("fresh");
    std::fs::write(&fresh, bytes).unwrap();
    std::fs::rename(&fresh, path).unwrap();
}
