//! Constant load through gateways, as a layer 4 balancer spreads it: new connections go to a ready
//! endpoint, and old ones stay until a side closes them. Clients follow HTTP: a client leaves when
//! `connection: close` or GOAWAY asks it to.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use tokio::task::JoinSet;
use tokio::time::sleep;

use kit::h2;
use kit::locked;
use kit::prelude::*;
use kit::websocket::WebSocket;

/// The host of all requests: the kit's HTTP/2 requests use it.
pub(crate) const HOST: &str = "test.local";
const H2_STREAMS: usize = 8;

/// The proxies that get new connections.
pub(crate) trait Endpoints: Send + Sync + 'static {
    /// One of those that are ready.
    fn any(&self) -> Option<SocketAddr>;
    /// Whether a client may still connect there: one that is late tries another.
    fn has(&self, address: SocketAddr) -> bool;
    /// The name of the pod, for failures.
    fn pod_at(&self, address: SocketAddr) -> String;
}

/// One of those that are ready, which it waits for.
pub(crate) async fn any_of(endpoints: &dyn Endpoints) -> SocketAddr {
    loop {
        if let Some(address) = endpoints.any() {
            return address;
        }
        sleep(Duration::from_millis(50)).await;
    }
}

/// The clients of each protocol, and their requests.
pub(crate) struct Mix {
    h1_clients: usize,
    h2_connections: usize,
    websockets: usize,
    /// Clients that make one gRPC call after the other, on one connection each.
    grpc_clients: usize,
    /// The path of a request that takes so many milliseconds.
    path: fn(u16) -> String,
    /// How long a request takes, in milliseconds.
    takes: fn() -> u16,
    /// The pause between two requests on a connection of HTTP/1.
    pause: Duration,
}

/// Requests of all protocols, from 10 ms to 8 s.
pub(crate) const MIXED: Mix = Mix {
    h1_clients: 28,
    h2_connections: 4,
    websockets: 4,
    grpc_clients: 0,
    path: |millis| format!("/takes/{millis}"),
    takes: mostly_short,
    pause: Duration::ZERO,
};
/// Short requests, about 60 a second.
pub(crate) const SHORT: Mix = Mix {
    h1_clients: 8,
    h2_connections: 0,
    websockets: 0,
    grpc_clients: 0,
    takes: || 20,
    pause: Duration::from_millis(100),
    ..MIXED
};
/// [`MIXED`] for the kit's upstream, which knows gRPC, too; half as much of HTTP.
pub(crate) const WITH_GRPC: Mix = Mix {
    h1_clients: 14,
    h2_connections: 2,
    grpc_clients: 4,
    path: |millis| format!("/delay/{millis}"),
    ..MIXED
};

impl Mix {
    /// What [`Tally::long_lived`] counts.
    pub(crate) fn long_lived(&self) -> &'static str {
        if self.grpc_clients > 0 { "WebSockets and gRPC calls" } else { "WebSockets" }
    }
}

/// The results of all requests.
#[derive(Default)]
pub(crate) struct Tally {
    pub(crate) requests: AtomicUsize,
    /// The WebSockets and gRPC calls among them.
    pub(crate) long_lived: AtomicUsize,
    failures: Mutex<Vec<Failed>>,
}

/// A request that was lost.
struct Failed {
    /// The time since the load began.
    after: Duration,
    /// The gateway's pod that got the request.
    pod: String,
    what: String,
}

impl Tally {
    pub(crate) fn failures(&self) -> usize {
        locked(&self.failures).len()
    }

    /// The first failures, a line each.
    pub(crate) fn first_failures(&self, count: usize) -> String {
        let line = |failed: &Failed| {
            format!("  {:6.2} s  {}  {}", failed.after.as_secs_f64(), failed.pod, failed.what)
        };
        locked(&self.failures).iter().take(count).map(line).collect::<Vec<_>>().join("\n")
    }
}

/// A running load. Dropping it ends it at once; [`Load::finish`] lets requests end first.
pub(crate) struct Load {
    clients: JoinSet<()>,
    shared: Arc<Shared>,
}

struct Shared {
    endpoints: Box<dyn Endpoints>,
    mix: &'static Mix,
    begun: Instant,
    ending: AtomicBool,
    tally: Tally,
}

impl Load {
    pub(crate) fn start(endpoints: impl Endpoints, mix: &'static Mix) -> Self {
        let shared = Shared {
            endpoints: Box::new(endpoints),
            mix,
            begun: Instant::now(),
            ending: AtomicBool::new(false),
            tally: Tally::default(),
        };
        let shared = Arc::new(shared);
        let mut clients = JoinSet::new();
        for _ in 0..mix.h1_clients {
            clients.spawn(h1_client(Arc::clone(&shared)));
        }
        for _ in 0..mix.h2_connections {
            clients.spawn(h2_client(Arc::clone(&shared)));
        }
        for _ in 0..mix.websockets {
            clients.spawn(websocket_client(Arc::clone(&shared)));
        }
        for _ in 0..mix.grpc_clients {
            clients.spawn(grpc_client(Arc::clone(&shared)));
        }
        Self { clients, shared }
    }

    /// Waits until so many requests have ended.
    pub(crate) async fn enough(&self, count: usize) -> Outcome {
        wait_for(PATIENCE, "enough requests", async || {
            let requests = self.shared.tally.requests.load(Ordering::Relaxed);
            ensure!(requests >= count, "{requests} requests");
            Ok(())
        })
        .await
    }

    /// Begins no more requests, and waits for those in flight.
    pub(crate) async fn finish(mut self) -> Outcome<Tally> {
        self.shared.ending.store(true, Ordering::Relaxed);
        while let Some(client) = self.clients.join_next().await {
            client.context("a client")?;
        }
        Ok(Arc::into_inner(self.shared).context("a client goes on")?.tally)
    }
}

impl Shared {
    fn goes_on(&self) -> bool {
        !self.ending.load(Ordering::Relaxed)
    }

    async fn gateway(&self) -> SocketAddr {
        any_of(self.endpoints.as_ref()).await
    }

    fn path(&self) -> String {
        (self.mix.path)((self.mix.takes)())
    }

    /// A new connection; nothing after a failure, which is noted.
    fn connected<C>(&self, gateway: SocketAddr, connection: Outcome<C>) -> Option<C> {
        let connection = connection.inspect_err(|failure| {
            if self.endpoints.has(gateway) {
                self.note(gateway, "connecting", Err(Error::msg(format!("{failure:#}"))));
            }
        });
        connection.ok()
    }

    fn note(&self, gateway: SocketAddr, what: &str, outcome: Outcome) {
        self.tally.requests.fetch_add(1, Ordering::Relaxed);
        if let Err(failure) = outcome {
            let failed = Failed {
                after: self.begun.elapsed(),
                pod: self.endpoints.pod_at(gateway),
                what: format!("{what}: {failure:#}"),
            };
            locked(&self.tally.failures).push(failed);
        }
    }
}

/// From 10 ms to 8 s; most are short.
fn mostly_short() -> u16 {
    match fastrand::u8(..100) {
        0..90 => fastrand::u16(10..60),
        90..98 => fastrand::u16(200..1000),
        _ => fastrand::u16(2000..=8000),
    }
}

async fn h1_client(shared: Arc<Shared>) {
    while shared.goes_on() {
        let gateway = shared.gateway().await;
        let connection = Client::connect(gateway).await;
        let Some(mut client) = shared.connected(gateway, connection) else { continue };
        while shared.goes_on() {
            let path = shared.path();
            let response = client.request(&Request::get(&path).host(HOST)).await;
            let stays = response.as_ref().is_ok_and(|response| {
                response.header("connection").is_none_or(|value| value != "close")
            });
            shared.note(
                gateway,
                &format!("h1 {path}"),
                response.and_then(|response| response.expect(200)).map(drop),
            );
            if !stays {
                break;
            }
            if !shared.mix.pause.is_zero() {
                sleep(shared.mix.pause).await;
            }
        }
    }
}

/// A client with several streams at a time on a connection. After GOAWAY it begins no more streams
/// there.
async fn h2_client(shared: Arc<Shared>) {
    while shared.goes_on() {
        let gateway = shared.gateway().await;
        let connection = h2::Client::connect(gateway).await;
        let Some(mut client) = shared.connected(gateway, connection) else { continue };
        let mut streams = JoinSet::new();
        let mut begun = 0;
        loop {
            if streams.len() == H2_STREAMS || !shared.goes_on() {
                if streams.join_next().await.is_none() {
                    break;
                }
                continue;
            }
            let path = shared.path();
            // after GOAWAY the stream was never sent
            let Ok(stream) = client.open(h2::get(&path), true).await else { break };
            begun += 1;
            let shared = Arc::clone(&shared);
            streams.spawn(async move {
                let outcome =
                    stream.response().await.and_then(|response| response.expect(200)).map(drop);
                shared.note(gateway, &format!("h2 {path}"), outcome);
            });
        }
        while streams.join_next().await.is_some() {}
        if begun == 0 && shared.goes_on() {
            shared.note(gateway, "h2", Err(Error::msg("a new connection took no stream")));
        }
    }
}

async fn websocket_client(shared: Arc<Shared>) {
    while shared.goes_on() {
        let gateway = shared.gateway().await;
        let outcome = conversation(gateway).await;
        shared.tally.long_lived.fetch_add(1, Ordering::Relaxed);
        shared.note(gateway, "WebSocket", outcome);
    }
}

/// Sends texts for 2 to 5 seconds, however slow the echoes, and closes cleanly.
async fn conversation(gateway: SocketAddr) -> Outcome {
    let client = Client::connect(gateway).await?;
    let mut socket = WebSocket::upgrade(client, Request::get("/ws").host(HOST)).await?;
    let until = Instant::now() + Duration::from_millis(fastrand::u64(2_000..5_000));
    while Instant::now() < until {
        socket.echo("text").await?;
        sleep(Duration::from_millis(200)).await;
    }
    socket.close(1000).await
}

/// A client that makes calls until GOAWAY asks it to leave. Each has three messages and their
/// echoes, and ends with the upstream's trailers.
async fn grpc_client(shared: Arc<Shared>) {
    while shared.goes_on() {
        let gateway = shared.gateway().await;
        let connection = h2::Client::connect(gateway).await;
        let Some(mut client) = shared.connected(gateway, connection) else { continue };
        while shared.goes_on() {
            // after GOAWAY the stream was never sent
            let Ok(stream) = client.open(h2::grpc("/grpc"), false).await else { break };
            let pause = Duration::from_millis((shared.mix.takes)().into()) / 3;
            let outcome = call(stream, pause).await;
            shared.tally.long_lived.fetch_add(1, Ordering::Relaxed);
            shared.note(gateway, "gRPC", outcome);
        }
    }
}

async fn call(mut stream: h2::Stream, pause: Duration) -> Outcome {
    stream.head().await?.expect(200)?;
    for _ in 0..3 {
        stream.send("message", false).await?;
        stream.piece().await?.context("no echo")?;
        sleep(pause).await;
    }
    stream.send("", true).await?;
    while stream.piece().await?.is_some() {}
    let status = stream.trailers().await?.get("grpc-status");
    ensure_eq!(status.as_deref(), Some("0"), "grpc-status");
    Ok(())
}
