//! The cost of the frame filter: a message over a WebSocket and its echo, with and without the
//! filter, and a request on another route of the same chain.

use serde::Serialize;

use crate::bed;
use crate::callgrind::Counted;
use crate::numbers::{self, Spread};
use crate::site::Site;
use kit::bootstrap::filters::Wasm;
use kit::prelude::*;
use kit::websocket::WebSocket;

const FRAMES: &str = "laststream-frames";
const ROUNDS: usize = 5;
const MESSAGES: usize = 200;
/// Sizes of messages in bytes: a short one, and one that fills a chunk.
const SIZES: [usize; 2] = [100, 16_000];

/// The figures of one listener and route.
#[derive(Serialize)]
pub(crate) struct Row {
    pub(crate) title: String,
    /// Instructions for a message and its echo, of each size.
    pub(crate) messages: Vec<Spread>,
    /// Instructions for a request that Envoy answers itself.
    pub(crate) request: Spread,
}

/// Title, listener, and path of the WebSocket.
const PLACES: [(&str, &str, &str); 3] = [
    ("counting only", "without", "/off"),
    ("with the frame filter, off on this route", "with", "/off"),
    ("with the frame filter, on for this route", "with", "/on"),
];

pub(crate) async fn measure(site: &Site) -> Outcome<Vec<Row>> {
    say("sockets: messages with and without the frame filter");
    let upstream = Upstream::start().await?;
    let bootstrap = Bootstrap::new()
        .cluster(cluster::h1("app", upstream.h1()))
        .listener(Listener::new("without", hcm(site, "without")))
        .listener(Listener::new("with", hcm(site, "with")));
    let counted = Counted::start(&site.envoy, bootstrap).await?;
    counted.switch_on().await?;
    let mut figures = vec![vec![Vec::new(); SIZES.len() + 1]; PLACES.len()];
    for round in 0..=ROUNDS {
        for ((_, listener, path), figures) in PLACES.iter().zip(&mut figures) {
            let seen = in_one_round(&counted, listener, path).await?;
            // The first round warms up.
            if round > 0 {
                figures.iter_mut().zip(seen).for_each(|(figures, seen)| figures.push(seen));
            }
        }
    }
    let row = |((title, ..), mut figures): (&(&str, &str, &str), Vec<Vec<f64>>)| {
        let request = Spread::of(figures.pop().unwrap_or_default());
        let messages = figures.into_iter().map(Spread::of).collect();
        Row { title: (*title).to_owned(), messages, request }
    };
    Ok(PLACES.iter().zip(figures).map(row).collect())
}

/// A connection manager. Only the one named `with` has the frame filter.
fn hcm(site: &Site, name: &str) -> Hcm {
    let wasm = |name, module, configuration| Wasm {
        name,
        module,
        vm_id: "laststream",
        vm_configuration: "",
        configuration,
        failure_policy: "FAIL_RELOAD",
    };
    let mut hcm = Hcm::new(name).filter(wasm("laststream", &site.module, "{}").filter()).upgrades();
    let mut on = Route::prefix("/on").cluster("app").timeout("0s");
    if name == "with" {
        let mut filter = wasm(FRAMES, &site.frames, r#"{"role": "websocket"}"#).filter();
        filter["disabled"] = true.into();
        hcm = hcm.filter(filter);
        on = on.with_filter(FRAMES);
    }
    hcm.route(on)
        .route(Route::prefix("/off").cluster("app").timeout("0s"))
        .route(Route::prefix("/").direct(200, "ok"))
}

async fn in_one_round(counted: &Counted, listener: &str, path: &str) -> Outcome<Vec<f64>> {
    let at = counted.envoy.address(listener).await?;
    let mut seen = Vec::new();
    for size in SIZES {
        let mut socket = WebSocket::open(at, path).await?;
        let text = "x".repeat(size);
        socket.echo(&text).await?;
        let work = async {
            for _ in 0..MESSAGES {
                socket.echo(&text).await?;
            }
            Ok(())
        };
        seen.push(counted.count(work).await?.busiest as f64 / MESSAGES as f64);
        socket.close(1000).await?;
    }
    let mut client = Client::connect(at).await?;
    let request = Request::get("/");
    bed::ask(&mut client, &request, 1).await?;
    let count = counted.count(bed::ask(&mut client, &request, MESSAGES)).await?;
    seen.push(count.busiest as f64 / MESSAGES as f64);
    Ok(seen)
}

pub(crate) fn table(rows: &[Row]) -> String {
    let titles = "variant | message of 100 bytes and its echo, instructions | of 16,000 bytes | \
        request on another route";
    let cells = |Row { title, messages, request }: &Row| {
        let figures = messages.iter().chain([request]).map(|spread| spread.with_spread(0));
        [title.clone()].into_iter().chain(figures).collect()
    };
    numbers::table(titles, rows.iter().map(cells))
}
