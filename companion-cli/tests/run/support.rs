//! A run: started, asked, ended, and never left behind.

use std::io::{BufRead as _, BufReader, Read};
use std::net::SocketAddr;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process, kill_process_group, test_kill_process};
use serde_json::Value;
use tempfile::TempDir;

use crate::client::Client;

/// Longest waits; they end as soon as they can.
pub(crate) const PATIENCE: Duration = Duration::from_secs(90);

/// A `laststream run` in a process group of its own, as a shell starts it.
pub(crate) struct Run {
    child: Child,
    places: Value,
    people: Arc<Mutex<String>>,
    folder: TempDir,
}

/// How it ended.
#[derive(Debug)]
pub(crate) struct Ended {
    pub(crate) code: Option<i32>,
    pub(crate) people: String,
}

impl Run {
    /// Until it is ready.
    #[track_caller]
    pub(crate) fn start(arguments: &[&str]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        Self::start_in(folder, arguments)
    }

    /// In this folder, which becomes the current one.
    #[track_caller]
    pub(crate) fn start_in(folder: TempDir, arguments: &[&str]) -> Self {
        Self::start_with(folder, arguments, &[])
    }

    /// With these variables, too.
    #[track_caller]
    pub(crate) fn start_with(
        folder: TempDir,
        arguments: &[&str],
        variables: &[(&str, &str)],
    ) -> Self {
        let mut child = command(folder.path(), arguments)
            .envs(variables.iter().copied())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let people = hear(child.stderr.take().unwrap());
        let (sender, places) = mpsc::channel();
        let mut out = BufReader::new(child.stdout.take().unwrap());
        thread::spawn(move || {
            let mut text = String::new();
            while out.read_line(&mut text).is_ok_and(|read| read > 0) {
                if let Ok(places) = serde_json::from_str::<Value>(&text) {
                    let _ = sender.send(places);
                }
            }
        });
        let mut run = Self { child, places: Value::Null, people, folder };
        match places.recv_timeout(PATIENCE) {
            Ok(places) => run.places = places,
            Err(_) => panic!("it did not start: {}", run.people()),
        }
        run
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

    pub(crate) fn people(&self) -> String {
        self.people.lock().unwrap().clone()
    }

    /// A request through Envoy, on a connection of its own.
    #[track_caller]
    pub(crate) fn get(&self, path: &str) -> (u16, String) {
        Client::new(self.place("listener")).get(path, "").unwrap()
    }

    /// An answer of Envoy's admin interface.
    #[track_caller]
    pub(crate) fn admin(&self, path: &str) -> Value {
        let url = format!("http://{}{path}", self.place("admin"));
        let text = laststream::gate::Http::default()
            .request(http::Method::GET, &url, &[], PATIENCE)
            .unwrap()
            .body;
        serde_json::from_str(&text).unwrap()
    }

    /// What the gate says of the streams.
    #[track_caller]
    pub(crate) fn status(&self) -> Value {
        serde_json::from_str(&Client::new(self.place("gate")).get("/status", "").unwrap().1)
            .unwrap()
    }

    /// As Ctrl-C in a terminal: the whole group hears it.
    pub(crate) fn interrupt(&self) {
        kill_process_group(self.pid(), Signal::INT).unwrap();
    }

    /// Only the command hears it.
    pub(crate) fn signal(&self, signal: Signal) {
        kill_process(self.pid(), signal).unwrap();
    }

    #[track_caller]
    pub(crate) fn until_it_says(&self, words: &str) {
        until(&format!("`{words}`"), || self.people(), || self.people().contains(words));
    }

    #[track_caller]
    pub(crate) fn until_in_flight(&self, streams: u64) {
        until(
            "streams in flight",
            || self.status().to_string(),
            || self.status()["holding"] == streams,
        );
    }

    #[track_caller]
    pub(crate) fn until_envoy_is_gone(&self) {
        until("Envoy to be gone", String::new, || test_kill_process(self.envoy()).is_err());
    }

    /// Waits for the end.
    #[track_caller]
    pub(crate) fn ended(&mut self) -> Ended {
        let people = Arc::clone(&self.people);
        let mut code = None;
        until(
            "the end",
            || people.lock().unwrap().clone(),
            || {
                self.child.try_wait().unwrap().is_some_and(|status| {
                    code = Some(status.code());
                    true
                })
            },
        );
        self.until_envoy_is_gone();
        thread::sleep(Duration::from_millis(100)); // the last words are on their way
        Ended { code: code.flatten(), people: self.people() }
    }

    fn pid(&self) -> Pid {
        Pid::from_child(&self.child)
    }
}

impl Drop for Run {
    fn drop(&mut self) {
        let _ = self.child.kill(); // Envoy ends with it
        let _ = self.child.wait();
    }
}

impl Ended {
    #[track_caller]
    pub(crate) fn expect(self, code: i32) -> Self {
        assert_eq!(self.code, Some(code), "{}", self.people);
        self
    }

    #[track_caller]
    pub(crate) fn says(self, words: &str) -> Self {
        assert!(self.people.contains(words), "`{words}` is not in: {}", self.people);
        self
    }
}

fn command(folder: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_laststream"));
    command
        .current_dir(folder)
        .args(["run", "--output", "json"])
        .args(arguments)
        .process_group(0)
        .stdin(Stdio::null());
    command
        .env_remove("LASTSTREAM_ENVOY")
        .env("HTTP_PROXY", "http://127.0.0.1:9")
        .env("TMPDIR", folder);
    command
}

/// A run that must not get anywhere.
#[track_caller]
pub(crate) fn fails(folder: &Path, arguments: &[&str], variables: &[(&str, &str)]) -> Ended {
    run(folder, arguments, variables, None)
}

/// A run that is sent a signal once it has said this.
#[track_caller]
pub(crate) fn fails_when(
    folder: &Path,
    arguments: &[&str],
    variables: &[(&str, &str)],
    says: &str,
    signal: Signal,
) -> Ended {
    run(folder, arguments, variables, Some((says, signal)))
}

#[track_caller]
fn run(
    folder: &Path,
    arguments: &[&str],
    variables: &[(&str, &str)],
    mut when: Option<(&str, Signal)>,
) -> Ended {
    let mut child = command(folder, arguments)
        .envs(variables.iter().copied())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let people = hear(child.stderr.take().unwrap());
    let began = Instant::now();
    let code = loop {
        if let Some((_, signal)) =
            when.take_if(|(words, _)| people.lock().unwrap().contains(*words))
        {
            kill_process_group(Pid::from_child(&child), signal).unwrap();
        }
        match child.try_wait().unwrap() {
            Some(status) => break status.code(),
            None if began.elapsed() > PATIENCE => {
                child.kill().unwrap();
                panic!("it still runs: {}", people.lock().unwrap());
            }
            None => thread::sleep(Duration::from_millis(20)),
        }
    };
    thread::sleep(Duration::from_millis(100)); // the last words are on their way
    let people = people.lock().unwrap().clone();
    Ended { code, people }
}

#[track_caller]
pub(crate) fn until(what: &str, now: impl Fn() -> String, mut is_so: impl FnMut() -> bool) {
    let began = Instant::now();
    while !is_so() {
        assert!(began.elapsed() < PATIENCE, "waited too long for {what}: {}", now());
        thread::sleep(Duration::from_millis(20));
    }
}

fn hear(mut from: impl Read + Send + 'static) -> Arc<Mutex<String>> {
    let heard = Arc::new(Mutex::new(String::new()));
    let into = Arc::clone(&heard);
    thread::spawn(move || {
        let mut bytes = [0; 4096];
        while let Ok(read @ 1..) = from.read(&mut bytes) {
            into.lock().unwrap().push_str(&String::from_utf8_lossy(&bytes[..read]));
        }
    });
    heard
}

/// The module of this program, as a file; with something more, other bytes that do the same.
pub(crate) fn module(path: &Path, more: u8) {
    let mut bytes = laststream::module::builtin().unwrap().to_vec();
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

/// As editors do.
pub(crate) fn put(path: &Path, bytes: &[u8]) {
    let fresh = path.with_extension("fresh");
    std::fs::write(&fresh, bytes).unwrap();
    std::fs::rename(&fresh, path).unwrap();
}
