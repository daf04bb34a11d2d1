//! The app of a pod, in this process: `/delay/N` answers after N seconds and `/headers` with the headers, as httpbin does.
//!
//! At SIGTERM it does what gunicorn, httpbin's server, does: takes no new requests, finishes those that it has, and ends. Its listening
//! socket stays open until then, for its workers hold it.

use std::io::BufReader;
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use super::clock::GRAIN;
use super::error::Error;
use super::http::{self, Patient, Request};
use super::kubelet::Container;

/// httpbin's own.
const LONGEST_DELAY: f64 = 10.0;

pub(super) struct App {
    port: u16,
    state: Arc<State>,
}

#[derive(Default)]
struct State {
    terminating: AtomicBool,
    killed: AtomicBool,
    ended: AtomicBool,
    in_flight: AtomicUsize,
    executions: AtomicUsize,
}

impl App {
    pub(super) fn start() -> Result<Self, Error> {
        let (listener, port) = http::listen().map_err(|error| Error::Listen { error })?;
        let state = Arc::new(State::default());
        let shared = Arc::clone(&state);
        thread::spawn(move || serve(listener, &shared));
        Ok(Self { port, state })
    }

    pub(super) fn port(&self) -> u16 {
        self.port
    }

    /// How many delays are running.
    pub(super) fn in_flight(&self) -> usize {
        self.state.in_flight.load(Ordering::SeqCst)
    }

    /// How many delays were ever begun: how often the work was done.
    pub(super) fn executions(&self) -> usize {
        self.state.executions.load(Ordering::SeqCst)
    }

    /// Whether `netstat` would show its port.
    pub(super) fn is_listening(&self) -> bool {
        !self.has_ended()
    }
}

impl Container for App {
    fn terminate(&self) {
        self.state.terminating.store(true, Ordering::SeqCst);
    }

    fn kill(&self) {
        self.state.killed.store(true, Ordering::SeqCst);
        self.terminate();
    }

    fn has_ended(&self) -> bool {
        self.state.ended.load(Ordering::SeqCst)
    }
}

impl Drop for App {
    fn drop(&mut self) {
        self.kill();
    }
}

fn serve(listener: TcpListener, state: &Arc<State>) {
    loop {
        let leaving = state.terminating.load(Ordering::SeqCst);
        if leaving && (state.in_flight.load(Ordering::SeqCst) == 0 || state.killed.load(Ordering::SeqCst)) {
            break;
        }
        match listener.accept() {
            Ok((stream, _)) if !leaving => {
                let shared = Arc::clone(state);
                thread::spawn(move || talk(&stream, &shared));
            }
            _ => thread::sleep(GRAIN),
        }
    }
    drop(listener);
    state.ended.store(true, Ordering::SeqCst);
}

/// One connection. When it breaks, there is nobody to be told.
fn talk(stream: &TcpStream, state: &State) {
    let prepared = stream.set_nonblocking(false).and_then(|()| stream.set_read_timeout(Some(GRAIN * 5)));
    let leaving = || state.terminating.load(Ordering::SeqCst);
    let mut reader = BufReader::new(Patient::new(stream, &leaving));
    if prepared.is_err() {
        return;
    }
    while let Ok(request) = http::request(&mut reader) {
        let mut writer = stream;
        let answered = match delay(&request) {
            Some(duration) => {
                let _in_flight = InFlight::begin(state);
                if !sleep_unless_killed(duration, state) {
                    return;
                }
                http::answer(&mut writer, 200, &format!("{{\"delay\": {}}}\n", duration.as_secs_f64()), leaving())
            }
            None if request.path == "/headers" => http::answer(&mut writer, 200, &headers(&request), leaving()),
            None => http::answer(&mut writer, 404, "{\"error\": \"there are /delay/N and /headers\"}\n", leaving()),
        };
        if answered.is_err() || leaving() {
            return;
        }
    }
}

/// Counted as long as it lives, whatever becomes of it.
struct InFlight<'a>(&'a State);

impl<'a> InFlight<'a> {
    fn begin(state: &'a State) -> Self {
        state.in_flight.fetch_add(1, Ordering::SeqCst);
        state.executions.fetch_add(1, Ordering::SeqCst);
        Self(state)
    }
}

impl Drop for InFlight<'_> {
    fn drop(&mut self) {
        self.0.in_flight.fetch_sub(1, Ordering::SeqCst);
    }
}

fn delay(request: &Request) -> Option<Duration> {
    let seconds: f64 = request.path.strip_prefix("/delay/")?.parse().ok()?;
    Duration::try_from_secs_f64(seconds.min(LONGEST_DELAY)).ok()
}

fn sleep_unless_killed(duration: Duration, state: &State) -> bool {
    let end = Instant::now() + duration;
    while Instant::now() < end && !state.killed.load(Ordering::SeqCst) {
        thread::sleep(GRAIN.min(end.saturating_duration_since(Instant::now())));
    }
    !state.killed.load(Ordering::SeqCst)
}

fn headers(request: &Request) -> String {
    let headers: serde_json::Map<_, _> =
        request.headers.iter().map(|(name, value)| (name.clone(), serde_json::Value::from(value.as_str()))).collect();
    format!("{:#}\n", serde_json::json!({ "headers": headers }))
}
