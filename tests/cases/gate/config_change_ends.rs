//! E1: the same streams through one change of a listener, without and with an end policy. Without
//! it, Envoy closes all of them at once when its drain time is over.

use std::time::{Duration, Instant};

use tokio::task::JoinSet;
use tokio::time::sleep;

use super::bench::{Bench, SOON, bootstrap, gate_listener};
use crate::cases::stage::routes;
use crate::lab::{Lab, cases, frames_module};
use kit::h1::Ended;
use kit::prelude::*;
use kit::websocket::{Frame, WebSocket};
use kit::wire::free_port;
use kit::xds::Xds;

cases! {
    e1_a_change_without_an_end_policy,
    e1_a_change_with_an_end_policy,
}

const WEBSOCKETS: usize = 40;
const EVENT_STREAMS: usize = 40;
const WAITING: usize = 10;
/// Envoy's drain time; the ends are spread over two thirds of it.
const DRAIN: u32 = 12;
/// The delay with which a client may see its end on a busy machine.
const LATE: Duration = Duration::from_secs(3);
const FRAMES: &str = "laststream-frames";
const ROLE: &str = r#"{"role": "websocket"}"#;
const POLICY: &str = r#""config_change": {"drain_ms": 12000}, "end": {
    "waiting": "end", "websocket": "end", "event_stream": "end",
    "retry_after_s": {"from": 2, "to": 9}
}"#;

/// How a stream ended, and how long after the change.
#[derive(Debug, Clone)]
struct End {
    kind: &'static str,
    after: Duration,
    how: String,
}

struct Streams {
    clients: JoinSet<Outcome<(&'static str, Instant, String)>>,
}

/// The listener `main`, with the frame filter on the route of the WebSockets.
fn main(lab: &Lab, port: u16, version: u32) -> Outcome<Listener> {
    let counter = lab.stream(r#"{"count": {"kinds": true}}"#).filter();
    let module = frames_module()?;
    let frames = filters::Wasm { name: FRAMES, module: &module, ..lab.stream(ROLE) };
    let mut frames = frames.filter();
    frames["disabled"] = true.into();
    let sockets = Route::prefix("/websocket").cluster("app").timeout("0s").with_filter(FRAMES);
    let hcm = routes(Hcm::new("main").filter(counter).filter(frames).route(sockets));
    Ok(Listener::new("main", hcm.with("/via", json!(format!("v{version}")))).port(port))
}

/// Sends a text and waits for its echo, again and again, until the WebSocket ends. Returns the
/// close code, or 1006 if there was none.
async fn chat(mut socket: WebSocket) -> u16 {
    while socket.send(&Frame::text("hello")).await.is_ok() {
        match socket.receive().await.map(|frame| frame.close_code()) {
            Ok(None) => sleep(Duration::from_millis(100)).await,
            Ok(Some(code)) => return code,
            Err(_) => return 1006,
        }
    }
    1006
}

impl Streams {
    /// All of them are under way when this returns.
    async fn open(bench: &Bench, to: SocketAddr) -> Outcome<Self> {
        let mut clients = JoinSet::new();
        for _ in 0..WEBSOCKETS {
            let mut socket = WebSocket::open(to, "/websocket").await?;
            socket.echo("hello").await?;
            clients.spawn(async move {
                let code = chat(socket).await;
                Ok(("websocket", Instant::now(), code.to_string()))
            });
        }
        for _ in 0..EVENT_STREAMS {
            let mut client = Client::connect(to).await?.patience(SOON * 2);
            let request = Request::get("/stream/200/events").header("accept", "text/event-stream");
            client.send(&request.bytes()).await?;
            let (response, _) = client.response_head("GET").await?;
            response.expect(200)?;
            clients.spawn(async move {
                let ended = client.ended().await?;
                Ok(("event stream", Instant::now(), said(&ended).into()))
            });
        }
        for _ in 0..WAITING {
            let mut client = Client::connect(to).await?.patience(SOON * 2);
            client.send(&Request::get("/hold/waiting").bytes()).await?;
            clients.spawn(async move {
                let how = match client.response("GET").await {
                    Ok(response) => {
                        let retry = response.header("retry-after").unwrap_or_default();
                        format!("{} after {retry}", response.status)
                    }
                    Err(_) => "no response".into(),
                };
                Ok(("waiting", Instant::now(), how))
            });
        }
        bench.upstream.wait_held("waiting", WAITING, SOON).await?;
        Ok(Self { clients })
    }

    async fn ends(mut self, changed: Instant) -> Outcome<Vec<End>> {
        let mut ends = Vec::new();
        while let Some(ended) = self.clients.join_next().await {
            let (kind, at, how) = ended??;
            ends.push(End { kind, after: at - changed, how });
        }
        ends.sort_by_key(|end| end.after);
        Ok(ends)
    }
}

fn said(ended: &Ended) -> &'static str {
    match ended {
        Ended::Fin => "closed",
        Ended::Reset => "reset",
    }
}

/// Changes the listener once while streams are in flight, and returns how these ended. Streams that
/// begin after the change live on.
async fn change(lab: &Lab, more: &str) -> Outcome<Vec<End>> {
    let (xds, port) = (Xds::new()?, free_port()?);
    xds.write_listeners(&[main(lab, port, 0)?])?;
    let upstream = Upstream::start().await?;
    let gate = format!(r#"{{"quiet_ms": 300{more}}}"#);
    let bootstrap = bootstrap(&upstream).listener(gate_listener(lab, &gate)).listeners_from(&xds);
    let options = Options { drain_time_s: Some(DRAIN), ..Options::default() };
    let bench = Bench::start(lab, upstream, bootstrap, options).await?;
    let streams = Streams::open(&bench, bench.main).await?;
    // Old enough to be ended, and Envoy was queried after they began.
    sleep(Duration::from_millis(3_500)).await;
    let changed = Instant::now();
    xds.replace_listeners(&bench.envoy, &[main(lab, port, 1)?]).await?.accepted()?;
    let mut young = WebSocket::open(bench.main, "/websocket").await?;
    let mut waits = bench.held("young").await?;
    let ends = streams.ends(changed).await?;
    sleep(Duration::from_secs(u64::from(DRAIN) + 2).saturating_sub(changed.elapsed())).await;
    young.echo("a WebSocket that began after the change").await?;
    bench.release("young", &mut waits).await?;
    young.close(1000).await?;
    Ok(ends)
}

/// The number of ends in each second.
fn histogram(ends: &[End]) -> Vec<usize> {
    (0..=u64::from(DRAIN))
        .map(|second| ends.iter().filter(|end| end.after.as_secs() == second).count())
        .collect()
}

fn report(what: &str, ends: &[End]) {
    let waiting: Vec<&str> =
        ends.iter().filter(|end| end.kind == "waiting").map(|end| end.how.as_str()).collect();
    let clean = ends.iter().filter(|end| end.how == "1001").count();
    say(&format!(
        "E1 {what}: ended in each second {:?}; WebSockets with 1001: {clean} of {WEBSOCKETS}; \
         waiting: {waiting:?}",
        histogram(ends)
    ));
}

async fn e1_a_change_without_an_end_policy(lab: &Lab) -> Outcome {
    let ends = change(lab, "").await?;
    report("today", &ends);
    ensure_eq!(ends.len(), WEBSOCKETS + EVENT_STREAMS + WAITING, "streams");
    let [first, .., last] = &ends[..] else { bail!("no ends") };
    ensure!(first.after >= Duration::from_secs(u64::from(DRAIN) - 1), "{first:?}");
    ensure!(last.after - first.after <= LATE, "all at once: {first:?} to {last:?}");
    for end in ends.iter().filter(|end| end.kind == "waiting") {
        ensure_eq!(end.how, "no response", "a waiting request");
    }
    for end in ends.iter().filter(|end| end.kind == "websocket") {
        ensure_eq!(end.how, "1006", "a WebSocket");
    }
    Ok(())
}

async fn e1_a_change_with_an_end_policy(lab: &Lab) -> Outcome {
    let ends = change(lab, &format!(", {POLICY}")).await?;
    report("with an end policy", &ends);
    ensure_eq!(ends.len(), WEBSOCKETS + EVENT_STREAMS + WAITING, "streams");
    let window = Duration::from_secs(u64::from(DRAIN) * 2 / 3);
    for end in &ends {
        ensure!(end.after <= window + LATE, "after the window: {end:?}");
    }
    for end in ends.iter().filter(|end| end.kind == "waiting") {
        let seconds = end.how.strip_prefix("503 after ").and_then(|after| after.parse().ok());
        ensure!(seconds.is_some_and(|seconds: u64| (2..=9).contains(&seconds)), "{end:?}");
    }
    for end in ends.iter().filter(|end| end.kind == "websocket") {
        ensure_eq!(end.how, "1001", "a WebSocket");
    }
    // No second has more than three times its share.
    let share = ends.len() / (window.as_secs() as usize);
    for (second, count) in histogram(&ends).into_iter().enumerate() {
        ensure!(count <= 3 * share, "{count} streams ended in second {second}");
    }
    Ok(())
}
