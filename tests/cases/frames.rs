//! The frame filter: WebSockets of a real library end with close code 1001, on both sides, and no
//! message is damaged.

use std::process::{Command, Stdio};

use kit::h1::Ended;
use kit::h2;
use kit::process::{Process, guarded};
use kit::programs::program;
use kit::websocket::{Frame, WebSocket};
use kit::wire::local;
use kit::workspace;
use laststream_module::analysis::{Module, ModuleKind, analyse};
use tokio::time::timeout;

use crate::cases::gate::bench::{Bench, SOON};
use crate::lab::{Lab, cases, frames_module};
use kit::prelude::*;

cases! {
    websockets_with_traffic_end_with_1001,
    clients_that_keep_sending_get_a_clean_close,
    clients_that_send_seldom_get_a_clean_close,
    an_extended_connect_ends_with_1001,
    the_frame_filter_exports_bodies_and_a_version,
}

const FRAMES: &str = "laststream-frames";
const EVICTIONS: &str = "wasmcustom.laststream_gate_evictions_total";
const ROLE: &str = r#"{"role": "websocket"}"#;

/// An Envoy whose route `/ws` has the frame filter, in front of a WebSocket server.
struct Sockets {
    bench: Bench,
    server: Process,
}

impl Sockets {
    async fn start(lab: &Lab) -> Outcome<Self> {
        Self::start_with(lab, GATE).await
    }

    async fn start_with(lab: &Lab, gate: &str) -> Outcome<Self> {
        let mut server = peers(&["server"])?;
        let port: u16 = server.next_line()?.parse().context("the server's port")?;
        let sockets = cluster::h1("sockets", local(port));
        let bootstrap = Bootstrap::new().cluster(sockets);
        let bench = Bench::upon(bootstrap, lab, gate, hcm(lab)?).await?;
        Ok(Self { bench, server })
    }

    fn clients(&self, count: usize, deflate: &str, activity: &str) -> Outcome<Process> {
        let url = format!("ws://{}/ws", self.bench.main);
        let mut clients = peers(&["clients", &url, &count.to_string(), deflate, activity])?;
        ensure_eq!(clients.next_line()?, "open", "the clients");
        Ok(clients)
    }

    /// Begins the drain, which ends all WebSockets, once they are old enough.
    async fn end_all(&self) -> Outcome {
        tokio::time::sleep(Duration::from_millis(2_200)).await;
        self.bench.post("/drain").await?.expect(202)?;
        Ok(())
    }

    /// How the connections ended on the server's side.
    fn server_report(&mut self) -> Outcome<Value> {
        self.server.write("\n")?;
        report(&mut self.server)
    }
}

/// A gate that ends old WebSockets within the first second of a drain.
const GATE: &str = r#"{"begin": {"call": "nothing"}, "end": {"websocket": "end",
    "at_age_ms": 2000, "over_ms": 1000, "websocket_grace_ms": 20000}}"#;
/// The same with the default grace period.
const DEFAULT_GRACE: &str = r#"{"begin": {"call": "nothing"}, "end": {"websocket": "end",
    "at_age_ms": 2000, "over_ms": 1000}}"#;

fn hcm(lab: &Lab) -> Outcome<Hcm> {
    let frames = frames_module()?;
    let counter = lab.stream(r#"{"count": {"kinds": true}}"#).filter();
    let mut frames = filters::Wasm { name: FRAMES, module: &frames, ..lab.stream(ROLE) }.filter();
    frames["disabled"] = true.into();
    let route = |prefix: &str, cluster: &str| Route::prefix(prefix).cluster(cluster).timeout("0s");
    Ok(Hcm::new("main")
        .filter(counter)
        .filter(frames)
        .upgrades()
        .route(route("/ws", "sockets").with_filter(FRAMES)))
}

/// Starts tests/tools/websocket_peers.py.
fn peers(arguments: &[&str]) -> Outcome<Process> {
    let library = program("websockets")?;
    let folder = library.ancestors().nth(2).context("the library's folder")?;
    let mut command: Command = guarded("python3");
    command
        .arg(workspace().join("tests/tools/websocket_peers.py"))
        .args(arguments)
        .env("PYTHONPATH", folder)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    Process::spawn(command)
}

fn report(process: &mut Process) -> Outcome<Value> {
    let line = process.next_line()?;
    serde_json::from_str(&line).with_context(|| process.stderr())
}

/// 24 clients send and check echoes of up to 300 kB, in fragments, compressed and not.
async fn websockets_with_traffic_end_with_1001(lab: &Lab) -> Outcome {
    let mut sockets = Sockets::start(lab).await?;
    let mut clients =
        [sockets.clients(12, "plain", "active")?, sockets.clients(12, "deflate", "active")?];
    sockets.end_all().await?;
    for clients in &mut clients {
        let report = report(clients)?;
        ensure_eq!(report["codes"], json!({ "1001": 12 }), "the clients: {report}");
        ensure_eq!(report["corrupt"], 0, "damaged messages");
        ensure!(report["messages"].as_u64() > Some(12), "too little traffic: {report}");
    }
    let report = sockets.server_report()?;
    ensure_eq!(report["codes"], json!({ "1001": 24 }), "the server's side");
    let log = sockets.bench.envoy.log();
    ensure!(!log.contains("not made of WebSocket frames"), "the filter lost a frame");
    Ok(())
}

/// A connection that is closed while bytes of the client are on their way is reset. Chromium then
/// says `wasClean: false`, and other clients report 1006.
async fn clients_that_keep_sending_get_a_clean_close(lab: &Lab) -> Outcome {
    let mut sockets = Sockets::start(lab).await?;
    let mut clients = Vec::new();
    for path in ["/ws", "/ws/silent"].repeat(20) {
        let socket = WebSocket::open(sockets.bench.main, path).await?;
        let interval = Duration::from_millis(5);
        clients.push(tokio::spawn(async move { (path, keep_sending(socket, interval).await) }));
    }
    sockets.end_all().await?;
    for client in clients {
        let (path, end) = client.await.context("a client")?;
        ensure_eq!(end.context(path)?, (1001, Ended::Fin), "the end under {path}");
    }
    ensure_eq!(sockets.server_report()?["codes"], json!({ "1001": 40 }), "the server's side");
    Ok(())
}

/// The first message after the gate's order may come in any part of the grace period.
async fn clients_that_send_seldom_get_a_clean_close(lab: &Lab) -> Outcome {
    const EACH: u32 = 20;
    let mut sockets = Sockets::start_with(lab, DEFAULT_GRACE).await?;
    let mut clients = Vec::new();
    for number in 0..EACH {
        let path = if number % 2 == 0 { "/ws" } else { "/ws/silent" };
        for interval in [1_200, 3_000].map(Duration::from_millis) {
            let socket = WebSocket::open(sockets.bench.main, path).await?;
            clients.push(tokio::spawn(async move {
                tokio::time::sleep(interval * number / EACH).await;
                (path, interval, keep_sending(socket, interval).await)
            }));
        }
    }
    sockets.end_all().await?;
    let mut broken = Vec::new();
    for client in clients {
        let (path, interval, end) = client.await.context("a client")?;
        if !matches!(end, Ok((1001, Ended::Fin))) {
            broken.push(format!("{path}, each {interval:?}: {end:?}"));
        }
    }
    ensure!(broken.is_empty(), "{} of {} sockets: {broken:#?}", broken.len(), 2 * EACH);
    ensure_eq!(sockets.server_report()?["codes"], json!({ "1001": 2 * EACH }), "the server's side");
    Ok(())
}

/// Sends a text at this interval until a close frame arrives, and answers that. Returns its code,
/// and how the connection ended.
async fn keep_sending(mut socket: WebSocket, interval: Duration) -> Outcome<(u16, Ended)> {
    let text = Frame::text("a message");
    loop {
        socket.send(&text).await?;
        while let Ok(frame) = timeout(interval, socket.receive()).await {
            if let Some(code) = frame?.close_code() {
                socket.send(&Frame::close(code)).await?;
                return Ok((code, socket.client.ended().await?));
            }
        }
    }
}

/// Over HTTP/2 to the client and HTTP/1 to the upstream.
async fn an_extended_connect_ends_with_1001(lab: &Lab) -> Outcome {
    let mut sockets = Sockets::start(lab).await?;
    let mut client = h2::Client::connect(sockets.bench.main).await?;
    let mut request = h2::extended_connect("websocket", "/ws");
    for (name, value) in
        [("sec-websocket-version", "13"), ("sec-websocket-key", "AAAAAAAAAAAAAAAAAAAAAA==")]
    {
        request.headers_mut().insert(name, value.parse()?);
    }
    let mut stream = client.open(request, false).await?;
    stream.head().await?.expect(200)?;
    let text = Frame::text("one");
    stream.send(text.bytes(true), false).await?;
    let echo = stream.piece().await?.context("an echo")?;
    ensure_eq!(echo.to_vec(), text.bytes(false), "the echo");
    sockets.end_all().await?;
    // By then, the counter has asked for the end.
    sockets.bench.envoy.wait_for_stat(EVICTIONS, 1, SOON).await?;
    stream.send(text.bytes(true), false).await?;
    let (mut rest, close) = (Vec::new(), Frame::close(1001));
    // Envoy resets the stream when the upstream closes its connection.
    while let Ok(Some(piece)) = stream.piece().await {
        rest.extend_from_slice(&piece);
        if rest.ends_with(&close.bytes(false)) {
            stream.send(close.bytes(true), false).await?;
        }
    }
    ensure!(rest.ends_with(&close.bytes(false)), "the end of the stream: {rest:?}");
    ensure_eq!(sockets.server_report()?["codes"], json!({ "1001": 1 }), "the server's side");
    Ok(())
}

/// The size limit of the module in bytes. It is low because every worker has a separate VM.
const BUDGET: usize = 95_000;

async fn the_frame_filter_exports_bodies_and_a_version(_lab: &Lab) -> Outcome {
    let code = std::fs::read(frames_module()?).context("the module")?;
    ensure!(code.len() < BUDGET, "the module has {} bytes", code.len());
    let Module { version, kind, exports, .. } = analyse(&code).map_err(Error::msg)?;
    ensure!(version.is_some() && kind == ModuleKind::FrameFilter, "its version or kind: {kind}");
    let has = |name: &str| exports.iter().any(|export| export == name);
    ensure!(
        has("proxy_on_request_body") && has("proxy_on_response_body"),
        "its exports: {exports:?}"
    );
    ensure!(!has("proxy_on_log") && !has("proxy_on_response_headers"), "its exports: {exports:?}");
    Ok(())
}
