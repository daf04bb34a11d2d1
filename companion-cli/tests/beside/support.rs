//! A proxy that is made up, and the program beside it.

use std::collections::HashMap;
use std::ffi::OsStr;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::process::{Child, Command, Output, Stdio};
use std::sync::{Arc, Mutex, mpsc};
use std::thread;
use std::time::{Duration, Instant};

pub(crate) const PROGRAM: &str = env!("CARGO_BIN_EXE_laststream");
pub(crate) const SOON: Duration = Duration::from_secs(30);

/// What it answers: method and path, and for each a status and a body. Everything else is 404.
pub(crate) struct Proxy {
    pub(crate) address: SocketAddr,
    answers: Arc<Mutex<HashMap<String, (u16, String)>>>,
    asked: Arc<Mutex<Vec<String>>>,
}

impl Proxy {
    /// One that is ready, with a gate that has nothing in flight, and that does nothing when it is
    /// told to quit.
    pub(crate) fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let (answers, asked) = (
            Arc::<Mutex<HashMap<String, (u16, String)>>>::default(),
            Arc::<Mutex<Vec<String>>>::default(),
        );
        let (known, heard) = (Arc::clone(&answers), Arc::clone(&asked));
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let Some(line) = first_line(&stream) else { continue };
                let question = line.trim_end_matches(" HTTP/1.1").to_owned();
                heard.lock().unwrap().push(question.clone());
                let answer =
                    known.lock().unwrap().get(&question).cloned().unwrap_or((404, String::new()));
                let (status, body) = answer;
                if status == 0 {
                    return; // the listener closes: the proxy has ended
                }
                let head = format!(
                    "HTTP/1.1 {status} x\r\ncontent-length: {}\r\nconnection: close\r\n\r\n",
                    body.len()
                );
                let _ = (&stream).write_all((head + &body).as_bytes()); // nobody is there any more
            }
        });
        let proxy = Self { address, answers, asked };
        proxy.answer("GET /ready", 200, "");
        proxy.in_flight(0);
        proxy
    }

    pub(crate) fn answer(&self, question: &str, status: u16, body: &str) {
        self.answers.lock().unwrap().insert(question.to_owned(), (status, body.to_owned()));
    }

    /// Ends when it is asked this.
    pub(crate) fn ends_at(&self, question: &str) {
        self.answer(question, 0, "");
    }

    pub(crate) fn in_flight(&self, count: u64) {
        let scope = format!(
            r#"{{"scope": "outbound", "in_flight": {count}, "long_lived": 0, "begun": 7}}"#
        );
        let body = format!(
            r#"{{"state": "serving", "reason": "x", "count": "exact", "holding": {count}, "scopes": [{scope}], "new": 1}}"#
        );
        self.answer("GET /status", 200, &body);
    }

    pub(crate) fn asked(&self, question: &str) -> usize {
        self.asked.lock().unwrap().iter().filter(|asked| asked.as_str() == question).count()
    }

    pub(crate) fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    /// The program beside it.
    pub(crate) fn exec<A: AsRef<OsStr>>(
        &self,
        options: &[&str],
        command: impl IntoIterator<Item = A>,
    ) -> Command {
        // Whoever started the tests may ignore signals, as a shell does for what runs in the
        // background.
        let mut program = Command::new("env");
        program.args(["--default-signal=INT,QUIT", PROGRAM]);
        program.env_remove("LASTSTREAM_GATE").env_remove("LASTSTREAM_SECRET");
        // Nobody's agent is told to end by a test.
        let nobody = ["--quit-url", "http://127.0.0.1:1/quit"]
            .into_iter()
            .filter(|_| !options.contains(&"--quit-url"));
        program
            .args(["exec", "--gate", &self.url(""), "--ready-url", &self.url("/ready")])
            .args(nobody)
            .args(options)
            .arg("--")
            .args(command);
        program
    }
}

fn first_line(stream: &TcpStream) -> Option<String> {
    stream.set_read_timeout(Some(Duration::from_secs(5))).ok()?;
    let mut lines = BufReader::new(stream).lines();
    let first = lines.next()?.ok()?;
    lines.map_while(Result::ok).take_while(|line| !line.is_empty()).for_each(drop);
    Some(first)
}

/// A program that is never left behind.
pub(crate) struct Running(Child);

impl Running {
    pub(crate) fn start(command: &mut Command) -> Self {
        Self(
            command
                .stdin(Stdio::null())
                .stdout(Stdio::piped())
                .stderr(Stdio::piped())
                .spawn()
                .unwrap(),
        )
    }

    pub(crate) fn id(&self) -> u32 {
        self.0.id()
    }

    pub(crate) fn signal(&self, name: &str) {
        signal(self.0.id(), name);
    }

    /// Reads a line of its output. A program that says nothing for long is ended, and its line is
    /// cut off there.
    pub(crate) fn line(&mut self) -> String {
        let pid = self.0.id();
        let (read, is_read) = mpsc::channel::<()>();
        thread::spawn(move || {
            if is_read.recv_timeout(SOON) == Err(mpsc::RecvTimeoutError::Timeout) {
                signal(pid, "KILL");
            }
        });
        let mut line = Vec::new();
        let out = self.0.stdout.as_mut().unwrap();
        let mut byte = [0];
        while out.read(&mut byte).unwrap() == 1 && byte != [b'\n'] {
            line.push(byte[0]);
        }
        drop(read);
        String::from_utf8(line).unwrap()
    }

    pub(crate) fn is_running(&mut self) -> bool {
        self.0.try_wait().unwrap().is_none()
    }

    /// Its exit code, and what is left of its outputs.
    pub(crate) fn end(mut self) -> (Option<i32>, String, String) {
        let began = Instant::now();
        let code = loop {
            match self.0.try_wait().unwrap() {
                Some(status) => break status.code(),
                None => assert!(began.elapsed() < SOON, "it does not end"),
            }
            thread::sleep(Duration::from_millis(5));
        };
        let (mut out, mut people) = (String::new(), String::new());
        self.0.stdout.take().unwrap().read_to_string(&mut out).unwrap();
        self.0.stderr.take().unwrap().read_to_string(&mut people).unwrap();
        (code, out, people)
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill(); // it has ended
        let _ = self.0.wait();
    }
}

pub(crate) fn signal(pid: u32, name: &str) {
    let status = Command::new("kill").args(["-s", name, &pid.to_string()]).status().unwrap();
    assert!(status.success(), "kill -s {name} {pid}");
}

pub(crate) fn run(command: &mut Command) -> (Option<i32>, String, String) {
    let Output { status, stdout, stderr } = command.stdin(Stdio::null()).output().unwrap();
    (
        status.code(),
        String::from_utf8_lossy(&stdout).into_owned(),
        String::from_utf8_lossy(&stderr).into_owned(),
    )
}

/// Looks until it is so.
pub(crate) fn until(what: &str, mut look: impl FnMut() -> bool) {
    let began = Instant::now();
    while !look() {
        assert!(began.elapsed() < SOON, "waited in vain for {what}");
        thread::sleep(Duration::from_millis(10));
    }
}
