//! Constant load through gateways, as a layer 4 balancer spreads it: new connections go to a ready
//! endpoint, and old ones stay until a side closes them. Clients follow HTTP: a client leaves when
//! `connection: close` or GOAWAY asks it to.

use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use tokio::task::JoinSet;
use tokio::time::sleep;

use super::workload::GATEWAY;
use super::world::World;
use kit::h2;
use kit::locked;
use kit::prelude::*;
use kit::websocket::WebSocket;

const H2_STREAMS: usize = 8;
/// `test.local`, the host of all requests: the kit's HTTP/2 requests use it.
pub(crate) const HOST: &str = "test.local";

/// The clients of each protocol, and their requests.
pub(crate) struct Mix {
    h1_clients: usize,
    h2_connections: usize,
    websockets: usize,
    path: fn() -> String,
    /// The pause between two requests on a connection of HTTP/1.
    pause: Duration,
}

/// Requests of all protocols, from 10 ms to 8 s.
pub(crate) const MIXED: Mix = Mix {
    h1_clients: 28,
    h2_connections: 4,
    websockets: 4,
    path: mostly_short,
    pause: Duration::ZERO,
};
/// Short requests, about 60 a second.
pub(crate) const SHORT: Mix = Mix {
    h1_clients: 8,
    h2_connections: 0,
    websockets: 0,
    path: || "/takes/20".into(),
    pause: Duration::from_millis(100),
};

/// The results of all requests.
#[derive(Default)]
pub(crate) struct Tally {
    pub(crate) requests: AtomicUsize,
    pub(crate) websockets: AtomicUsize,
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
    world: &'static World,
    namespace: &'static str,
    /// The name of the gateway's Service.
    service: &'static str,
    mix: &'static Mix,
    begun: Instant,
    ending: AtomicBool,
    tally: Tally,
}

impl Load {
    pub(crate) fn start(
        world: &'static World,
        namespace: &'static str,
        service: &'static str,
        mix: &'static Mix,
    ) -> Self {
        let shared = Shared {
            world,
            namespace,
            service,
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
        Self { clients, shared }
    }

    /// How many requests have ended.
    pub(crate) fn requests(&self) -> usize {
        self.shared.tally.requests.load(Ordering::Relaxed)
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
        endpoint(self.world, self.namespace, self.service).await
    }

    fn pod_at(&self, gateway: SocketAddr) -> String {
        let address = gateway.ip().to_string();
        let there = |pod: &Value| pod["status"]["podIP"] == address.as_str();
        let names = self.world.pods.find(self.namespace, |pod| {
            there(pod).then(|| pod["metadata"]["name"].as_str().map(str::to_owned))?
        });
        names.into_iter().next().unwrap_or_else(|| format!("{address}, which is gone"))
    }

    /// A new connection; nothing after a failure, which is noted.
    fn connected<C>(&self, gateway: SocketAddr, connection: Outcome<C>) -> Option<C> {
        connection.map_err(|failure| self.note(gateway, "connecting", Err(failure))).ok()
    }

    fn note(&self, gateway: SocketAddr, what: &str, outcome: Outcome) {
        self.tally.requests.fetch_add(1, Ordering::Relaxed);
        if let Err(failure) = outcome {
            let failed = Failed {
                after: self.begun.elapsed(),
                pod: self.pod_at(gateway),
                what: format!("{what}: {failure:#}"),
            };
            locked(&self.tally.failures).push(failed);
        }
    }
}

/// A random ready endpoint of a gateway's Service.
pub(super) async fn endpoint(world: &World, namespace: &str, service: &str) -> SocketAddr {
    loop {
        let ready = world.slices.find(namespace, |slice| {
            if slice["metadata"]["labels"]["kubernetes.io/service-name"] != service {
                return None;
            }
            let endpoints = slice["endpoints"]
                .as_array()?
                .iter()
                .filter(|endpoint| endpoint["conditions"]["ready"] == true);
            Some(
                endpoints
                    .filter_map(|endpoint| endpoint["addresses"][0].as_str()?.parse().ok())
                    .collect::<Vec<_>>(),
            )
        });
        let ready: Vec<IpAddr> = ready.into_iter().flatten().collect();
        if let Some(address) = fastrand::choice(&ready) {
            return SocketAddr::new(*address, GATEWAY);
        }
        sleep(Duration::from_millis(50)).await;
    }
}

/// The path of a request that takes from 10 ms to 8 s; most are short.
fn mostly_short() -> String {
    let millis = match fastrand::u8(..100) {
        0..90 => fastrand::u16(10..60),
        90..98 => fastrand::u16(200..1000),
        _ => fastrand::u16(2000..=8000),
    };
    format!("/takes/{millis}")
}

async fn h1_client(shared: Arc<Shared>) {
    while shared.goes_on() {
        let gateway = shared.gateway().await;
        let connection = Client::connect(gateway).await;
        let Some(mut client) = shared.connected(gateway, connection) else { continue };
        while shared.goes_on() {
            let path = (shared.mix.path)();
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
            let path = (shared.mix.path)();
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
        shared.tally.websockets.fetch_add(1, Ordering::Relaxed);
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
