//! The experiment of `laststream demo` in miniature: a pod is stopped while a stream is in flight.
//! Kubernetes calls the stop hook and sends SIGTERM as soon as that returns, or at once where there
//! is no hook. With the hook the client gets everything; without it, it does not.

use bytes::Bytes;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpSocket, TcpStream};
use tokio::time::{Instant, sleep, timeout};

use super::bench::{Bench, SOON, same};
use crate::cases::stage::{ACTIVE, hcm};
use crate::lab::{Lab, cases};
use kit::h2;
use kit::prelude::*;
use kit::websocket::{Frame, WebSocket};

cases! {
    an_http1_request_ends_before_the_pod => |lab| experiment(lab, Kind::Http1),
    a_grpc_stream_ends_before_the_pod => |lab| experiment(lab, Kind::Grpc),
    a_websocket_ends_before_the_pod => |lab| experiment(lab, Kind::WebSocket),
    a_slow_reader_gets_everything_before_the_pod_ends => |lab| experiment(lab, Kind::SlowReader),
    an_exempt_websocket_does_not_hold_the_pod,
}

/// The duration of each stream.
const TAKES: Duration = Duration::from_secs(3);
/// The age of the stream when the pod is stopped.
const AFTER: Duration = Duration::from_secs(1);
const BEAT: Duration = Duration::from_millis(250);
/// More bytes than the kernels' buffers hold; Envoy buffers the whole body. The stream is over for
/// the module while Envoy has bytes of it: only Envoy's count of buffered bytes shows them.
const BODY: u32 = 8_000_000;
const QUIET: Duration = Duration::from_millis(300);

#[derive(Clone, Copy, Debug)]
enum Kind {
    Http1,
    Grpc,
    WebSocket,
    SlowReader,
}

impl Kind {
    /// Runs the client's whole exchange, and returns when it had the last byte.
    async fn exchange(self, main: SocketAddr) -> Outcome<Instant> {
        match self {
            Self::Http1 => {
                let answer = Client::connect(main)
                    .await?
                    .get(&format!("/delay/{}", TAKES.as_millis()))
                    .await?
                    .expect(200)?;
                ensure_eq!(answer.text(), "delayed", "the answer");
            }
            Self::Grpc => grpc(main).await?,
            Self::WebSocket => {
                let mut socket = WebSocket::open(main, "/ws").await?;
                for _ in 0..beats() {
                    socket.echo("still there").await?;
                    sleep(BEAT).await;
                }
                // The test does not wait for the end of the connection: Envoy leaves that to the
                // client, for its `delayed_close_timeout` of a second.
                socket.send(&Frame::close(1000)).await?;
                ensure_eq!(
                    socket.receive().await?.close_code(),
                    Some(1000),
                    "the close frame that came back"
                );
            }
            Self::SlowReader => read_slowly(main).await?,
        }
        Ok(Instant::now())
    }

    /// Not for a slow reader: the kernel has the last bytes before the reader has, and it delivers
    /// them even after Envoy has ended.
    fn is_over_when_the_client_says_so(self) -> bool {
        !matches!(self, Self::SlowReader)
    }

    async fn bench(self, lab: &Lab) -> Outcome<Bench> {
        let gate = format!(
            r#"{{"quiet_ms": {}, "deadline_ms": 90000, "long_lived": "wait"}}"#,
            QUIET.as_millis()
        );
        let hcm = hcm(lab, r#"{"count": {"long_lived": {"upgrades": true, "grpc": true}}}"#);
        let main = Listener::new("main", hcm);
        let main = if let Self::SlowReader = self { main.buffer_limit(2 * BODY) } else { main };
        Bench::behind(main, Bootstrap::new(), lab, &gate).await
    }
}

fn beats() -> u128 {
    TAKES.as_millis() / BEAT.as_millis()
}

/// Messages there and back, headers at once, trailers at the end.
async fn grpc(main: SocketAddr) -> Outcome {
    let mut client = h2::Client::connect(main).await?;
    let mut stream = client.open(h2::grpc("/grpc"), false).await?;
    ensure_eq!(stream.head().await?.status, 200, "status");
    for number in 0..beats() {
        let message = Bytes::from(format!("\0\0\0\0\x04{number:04}"));
        stream.send(message.clone(), false).await?;
        ensure_eq!(stream.piece().await?, Some(message), "the message back");
        sleep(BEAT).await;
    }
    stream.send(Bytes::new(), true).await?;
    while let Some(piece) = stream.piece().await? {
        ensure!(piece.is_empty(), "more than was sent: {piece:?}");
    }
    ensure_eq!(stream.trailers().await?.get("grpc-status"), Some("0".into()), "grpc-status");
    Ok(())
}

/// The upstream has sent everything long before the reader has most of it.
async fn read_slowly(main: SocketAddr) -> Outcome {
    let mut reader = slow_reader(main).await?;
    let mut got = Vec::with_capacity(BODY as usize + 1_000);
    let head = loop {
        let read = timeout(SOON, reader.read_buf(&mut got)).await??;
        ensure!(read > 0, "the connection ended within the head");
        if let Some(end) = got.windows(4).position(|window| window == b"\r\n\r\n") {
            break end + 4;
        }
    };
    sleep(TAKES).await;
    while got.len() < head + BODY as usize {
        let read = timeout(SOON, reader.read_buf(&mut got)).await??;
        ensure!(read > 0, "the connection ended {} bytes early", head + BODY as usize - got.len());
        sleep(Duration::from_millis(1)).await;
    }
    ensure_eq!(got.len(), head + BODY as usize, "bytes");
    ensure!(got[head..].iter().all(|byte| *byte == b'x'), "a byte that was not sent");
    Ok(())
}

/// A reader whose small window keeps the bytes on the other side. It does not send `connection:
/// close`, because Envoy cuts such a connection when nothing moves for its `delayed_close_timeout`
/// of a second.
async fn slow_reader(to: SocketAddr) -> Outcome<TcpStream> {
    let socket = TcpSocket::new_v4()?;
    socket.set_recv_buffer_size(32 * 1024)?;
    let mut reader = socket.connect(to).await?;
    reader.write_all(&Request::get(&format!("/bytes/{BODY}")).bytes()).await?;
    Ok(reader)
}

/// Stops the pod as Kubernetes does: it calls the hook, and sends SIGTERM as soon as that has
/// returned; without a hook it sends SIGTERM at once.
async fn stop(bench: &mut Bench, with_hook: bool) -> Outcome<Instant> {
    if with_hook {
        let hook = bench.hook().await??.expect(200)?;
        same(&hook.json()?, "state", "drained")?;
    }
    let returned = Instant::now();
    bench.envoy.terminate()?;
    Ok(returned)
}

/// The hook returned after the client had the last byte.
fn outlasts(what: &str, returned: Instant, last_byte: Instant) -> Outcome {
    ensure!(
        returned > last_byte,
        "{what}: the hook returned {:?} before the last byte",
        last_byte - returned
    );
    let after = (returned - last_byte).as_millis();
    say(&format!("{what}: the hook returned {after} ms after the last byte"));
    Ok(())
}

/// The same stop, once with the hook and once without.
async fn experiment(lab: &Lab, kind: Kind) -> Outcome {
    for with_hook in [true, false] {
        let mut bench = kind.bench(lab).await?;
        let client = tokio::spawn(kind.exchange(bench.main));
        bench.envoy.wait_for_stat("http.main.downstream_rq_total", 1, SOON).await?;
        sleep(AFTER).await;
        if !kind.is_over_when_the_client_says_so() {
            // only the bytes of the response are left
            bench.envoy.wait_for_stat(ACTIVE, 0, SOON).await?;
            let refused = bench.post("/quitquitquit").await?.expect(503)?.json()?;
            let bytes = "Envoy has bytes of responses that are not yet written to clients";
            same(&refused, "reason", bytes)?;
        }
        ensure!(!client.is_finished(), "in flight when the pod is stopped");
        let returned = stop(&mut bench, with_hook).await?;
        bench.envoy.exited(SOON).await?;
        let last_byte = timeout(SOON, client).await??;
        if !with_hook {
            ensure!(
                last_byte.is_err(),
                "{kind:?}: nothing was lost without the hook, so the other half shows nothing"
            );
            continue;
        }
        let last_byte = last_byte?;
        if kind.is_over_when_the_client_says_so() {
            outlasts(&format!("{kind:?}"), returned, last_byte)?;
        }
    }
    Ok(())
}

/// By its policy the drain does not wait for the WebSocket: the status reports it apart, and
/// SIGTERM cuts it.
async fn an_exempt_websocket_does_not_hold_the_pod(lab: &Lab) -> Outcome {
    let gate = format!(
        r#"{{"quiet_ms": {}, "deadline_ms": 90000, "long_lived": "exempt"}}"#,
        QUIET.as_millis()
    );
    let main = hcm(lab, r#"{"count": {"long_lived": {"upgrades": true}}}"#);
    let mut bench = Bench::with(lab, &gate, main).await?;
    let mut socket = WebSocket::open(bench.main, "/ws").await?;
    let client = tokio::spawn(Kind::Http1.exchange(bench.main));
    bench.envoy.wait_for_stat("http.main.downstream_rq_total", 2, SOON).await?;
    let hook = bench.hook().await??.expect(200)?;
    let returned = Instant::now();
    outlasts("beside an exempt WebSocket", returned, client.await??)?;
    same(&hook.json()?, "holding", 0)?;
    socket.echo("still there").await?;
    let status = bench.status().await?;
    same(&status, "state", "drained")?;
    same(&status, "holding", 0)?;
    same(&status["scopes"][0], "in_flight", 1)?;
    same(&status["scopes"][0], "long_lived", 1)?;
    bench.envoy.terminate()?;
    bench.envoy.exited(SOON).await?;
    ensure!(socket.echo("gone").await.is_err(), "cut by SIGTERM");
    Ok(())
}
