//! A fake proxy with a gate, and the program beside it.

use std::ffi::OsStr;
use std::process::Command;
use std::time::Duration;

use kit::fake_server::{Answer, FakeServer, Fault, Replies};
use kit::process::Process;
use kit::{Context as _, Outcome, command};
use serde_json::{Value, json};

pub(crate) const PROGRAM: &str = env!("CARGO_BIN_EXE_laststream");

/// The request to the gate that ends its proxy.
pub(crate) const QUIT: &str = "POST /quitquitquit";

/// Replies go by method and path. A request without a reply gets 404.
pub(crate) struct Proxy {
    pub(crate) server: FakeServer,
    replies: Replies,
}

impl Proxy {
    /// A proxy that is ready, with a gate that has nothing in flight. It ends when it is asked to
    /// quit.
    pub(crate) fn start() -> Outcome<Self> {
        let replies = Replies::default();
        let proxy = Self { server: replies.serve()?, replies };
        proxy.answer("GET /ready", 200, "");
        proxy.ends_at(QUIT);
        proxy.in_flight(0);
        Ok(proxy)
    }

    pub(crate) fn answer(&self, request: &str, status: u16, body: &str) {
        self.replies.set(request, Ok(Answer::new(status).body(body)));
    }

    /// Makes the proxy end at this request.
    pub(crate) fn ends_at(&self, request: &str) {
        self.replies.set(request, Err(Fault::End));
    }

    /// Makes the proxy answer this request with silence.
    pub(crate) fn falls_silent_at(&self, request: &str, time: Duration) {
        self.replies.set(request, Err(Fault::Silence(time)));
    }

    pub(crate) fn in_flight(&self, count: u64) {
        self.has_status("serving", "x", "exact", vec![scope("outbound", count)]);
    }

    /// Makes this the gate's status.
    pub(crate) fn has_status(&self, state: &str, reason: &str, count: &str, scopes: Vec<Value>) {
        let in_flight = scopes.iter().filter_map(|scope| scope["in_flight"].as_u64());
        let body = json!({
            "state": state, "reason": reason, "count": count, "holding": in_flight.sum::<u64>(),
            "scopes": scopes, "new": 1,
        });
        self.answer("GET /status", 200, &body.to_string());
    }

    /// How often it has received this request.
    pub(crate) fn received(&self, request: &str) -> usize {
        self.server.asked().iter().filter(|asked| asked.is(request)).count()
    }

    pub(crate) fn url(&self, path: &str) -> String {
        self.server.url(path)
    }

    /// Starts a command beside the proxy, which stays, and waits until the command says `ready`.
    pub(crate) fn started(&self, program: &str, script: &str) -> Outcome<Process> {
        let exec = self.exec(&["--end-proxy", "never"], [program, "-c", script]);
        let mut running = Process::capture(&exec)?;
        assert_eq!(running.next_line()?, "ready");
        Ok(running)
    }

    /// The program beside the proxy.
    pub(crate) fn exec<A: AsRef<OsStr>>(
        &self,
        options: &[&str],
        command: impl IntoIterator<Item = A>,
    ) -> Command {
        // The parent of the tests may ignore signals, as a shell does for jobs in the background.
        let mut program = Command::new("env");
        program.args(["--default-signal", PROGRAM]);
        program.env_remove("LASTSTREAM_GATE").env_remove("LASTSTREAM_SECRET");
        // No test ends a real agent.
        let no_agent = ["--quit-url", "http://127.0.0.1:1/quit"]
            .into_iter()
            .filter(|_| !options.contains(&"--quit-url"));
        program
            .args(["exec", "--gate", &self.url(""), "--ready-url", &self.url("/ready")])
            .args(no_agent)
            .args(options)
            .arg("--")
            .args(command);
        program
    }
}

/// A scope of a gate's status.
pub(crate) fn scope(name: &str, in_flight: u64) -> Value {
    json!({ "scope": name, "in_flight": in_flight, "long_lived": 0, "begun": 7 })
}

pub(crate) fn signal(pid: u32, name: &str) -> Outcome {
    command::run(Command::new("kill").args(["-s", name, &pid.to_string()]))?.expect(0)?;
    Ok(())
}

/// The child of this process.
pub(crate) fn child_of(pid: u32) -> Outcome<u32> {
    let list = command::run(Command::new("pgrep").args(["-P", &pid.to_string()]))?.stdout;
    list.trim().parse().with_context(|| format!("children of {pid}: {list}"))
}
