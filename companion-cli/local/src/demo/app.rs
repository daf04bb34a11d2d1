//! The app behind a gateway, in this process: `/delay/N` answers after N seconds and `/headers`
//! with the headers, as httpbin does; `/websocket/N` is a WebSocket that the app closes after N
//! seconds.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use http::header::{CONNECTION, SEC_WEBSOCKET_ACCEPT, SEC_WEBSOCKET_KEY, UPGRADE};
use http::{HeaderValue, Request, Response, StatusCode};
use hyper::body::Incoming;
use hyper_util::rt::TokioIo;
use serde_json::json;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::handshake::derive_accept_key;
use tokio_tungstenite::tungstenite::protocol::Role;

use crate::server::{self, LISTEN, Server, headers_json};
use laststream_base::causes::Context as _;

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
        let handler = move |request| {
            let shared = Arc::clone(&shared);
            async move { Ok(respond(request, &shared).await) }
        };
        Ok(Self { server: Server::start(handler).context(LISTEN)?, work })
    }

    pub(super) fn port(&self) -> u16 {
        self.server.address().port()
    }

    /// The number of delays and WebSockets that are under way.
    pub(super) fn in_flight(&self) -> usize {
        self.work.in_flight.load(Ordering::SeqCst)
    }

    /// The number of delays that have ever begun: how often the work was done.
    pub(super) fn executions(&self) -> usize {
        self.work.executions.load(Ordering::SeqCst)
    }
}

async fn respond(request: Request<Incoming>, work: &Arc<Work>) -> Response<String> {
    let path = request.uri().path();
    if let Some(duration) = seconds(path, "/delay/") {
        let _in_flight = InFlight::begin(work);
        work.executions.fetch_add(1, Ordering::SeqCst);
        tokio::time::sleep(duration).await;
        return server::json(200, format!("{{\"delay\": {}}}\n", duration.as_secs_f64()));
    }
    if let Some(duration) = seconds(path, "/websocket/") {
        return websocket(request, duration, InFlight::begin(work));
    }
    if path == "/headers" {
        let reply = json!({ "headers": headers_json(request.headers()) });
        server::json(200, format!("{reply:#}\n"))
    } else {
        let paths = "{\"error\": \"there are /delay/N, /websocket/N and /headers\"}\n";
        server::json(404, paths.into())
    }
}

/// Accepts the WebSocket; a task closes it after this time.
fn websocket(
    mut request: Request<Incoming>,
    duration: Duration,
    in_flight: InFlight,
) -> Response<String> {
    let key = request.headers().get(SEC_WEBSOCKET_KEY).map(|key| derive_accept_key(key.as_bytes()));
    let Some(Ok(accept)) = key.map(HeaderValue::try_from) else {
        return server::json(400, "{\"error\": \"this is no WebSocket\"}\n".into());
    };
    let upgrade = hyper::upgrade::on(&mut request);
    tokio::spawn(async move {
        let _in_flight = in_flight;
        if let Ok(stream) = upgrade.await {
            let stream = TokioIo::new(stream);
            let mut socket = WebSocketStream::from_raw_socket(stream, Role::Server, None).await;
            tokio::time::sleep(duration).await;
            let _ = socket.close(None).await; // fails where the gateway has gone
        }
    });
    let mut response = Response::new(String::new());
    *response.status_mut() = StatusCode::SWITCHING_PROTOCOLS;
    response.headers_mut().extend([
        (CONNECTION, HeaderValue::from_static("upgrade")),
        (UPGRADE, HeaderValue::from_static("websocket")),
        (SEC_WEBSOCKET_ACCEPT, accept),
    ]);
    response
}

/// A stream that counts as under way until this value is dropped, however it ends.
struct InFlight(Arc<Work>);

impl InFlight {
    fn begin(work: &Arc<Work>) -> Self {
        work.in_flight.fetch_add(1, Ordering::SeqCst);
        Self(Arc::clone(work))
    }
}

impl Drop for InFlight {
    fn drop(&mut self) {
        self.0.in_flight.fetch_sub(1, Ordering::SeqCst);
    }
}

fn seconds(path: &str, prefix: &str) -> Option<Duration> {
    Duration::try_from_secs_f64(path.strip_prefix(prefix)?.parse().ok()?).ok()
}
