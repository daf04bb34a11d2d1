//! The app of a pod, in this process: `/delay/N` answers after N seconds and `/headers` with the
//! headers, as httpbin does.
//!
//! At SIGTERM it behaves like gunicorn, httpbin's server: it takes no new requests, finishes those
//! that it has, and ends. The listening socket stays open until then, because gunicorn's workers
//! hold it.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use http::{HeaderMap, Response};
use serde_json::json;

use super::container::Container;
use crate::server::{self, LISTEN, Server, headers_json};
use laststream_base::causes::Context as _;

/// The longest delay, in seconds, as in httpbin.
const LONGEST_DELAY: f64 = 10.0;

pub(super) struct App {
    server: Server,
    work: Arc<Work>,
}

#[derive(Default)]
struct Work {
    in_flight: AtomicUsize,
    executions: AtomicUsize,
}

impl App {
    pub(super) fn start() -> Result<Self, String> {
        let work = Arc::<Work>::default();
        let shared = Arc::clone(&work);
        let handler = move |request: http::Request<_>| {
            let shared = Arc::clone(&shared);
            let (head, ()) = request.map(drop::<hyper::body::Incoming>).into_parts();
            async move { Ok(respond(head.uri.path(), &head.headers, &shared).await) }
        };
        Ok(Self { server: Server::start(handler).context(LISTEN)?, work })
    }

    pub(super) fn port(&self) -> u16 {
        self.server.address().port()
    }

    /// The number of delays that are running.
    pub(super) fn in_flight(&self) -> usize {
        self.work.in_flight.load(Ordering::SeqCst)
    }

    /// The number of delays that have ever begun: how often the work was done.
    pub(super) fn executions(&self) -> usize {
        self.work.executions.load(Ordering::SeqCst)
    }

    /// Whether `netstat` would show its port.
    pub(super) fn is_listening(&self) -> bool {
        !self.has_ended()
    }
}

impl Container for App {
    fn terminate(&self) {
        self.server.leave();
    }

    fn kill(&self) {
        self.server.kill();
    }

    fn has_ended(&self) -> bool {
        self.server.has_ended()
    }
}

async fn respond(path: &str, headers: &HeaderMap, work: &Arc<Work>) -> Response<String> {
    if let Some(duration) = delay(path) {
        let _in_flight = InFlight::begin(work);
        tokio::time::sleep(duration).await;
        return server::json(200, format!("{{\"delay\": {}}}\n", duration.as_secs_f64()));
    }
    if path == "/headers" {
        let reply = json!({ "headers": headers_json(headers) });
        server::json(200, format!("{reply:#}\n"))
    } else {
        server::json(404, "{\"error\": \"there are /delay/N and /headers\"}\n".into())
    }
}

/// A delay that counts as running until this value is dropped, however the request ends.
struct InFlight<'a>(&'a Work);

impl<'a> InFlight<'a> {
    fn begin(work: &'a Work) -> Self {
        work.in_flight.fetch_add(1, Ordering::SeqCst);
        work.executions.fetch_add(1, Ordering::SeqCst);
        Self(work)
    }
}

impl Drop for InFlight<'_> {
    fn drop(&mut self) {
        self.0.in_flight.fetch_sub(1, Ordering::SeqCst);
    }
}

fn delay(path: &str) -> Option<Duration> {
    let seconds: f64 = path.strip_prefix("/delay/")?.parse().ok()?;
    Duration::try_from_secs_f64(seconds.min(LONGEST_DELAY)).ok()
}
