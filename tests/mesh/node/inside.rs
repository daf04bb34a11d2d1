//! The roles of this program inside a pod: the app, the command of a Job, or the process that keeps
//! a pod's namespaces. No test code runs there.

use std::pin::pin;
use std::process::ExitCode;
use std::time::Instant;

use tokio::net::{TcpListener, TcpStream};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::sleep;

use kit::h1;
use kit::prelude::*;
use kit::websocket;
use kit::wire::{Framing, Wire};

/// The first argument of this program inside a pod.
pub(crate) const ROLE: &str = "inside-a-pod";

/// The arguments after [`ROLE`], if this process runs inside a pod.
pub(crate) fn arguments() -> Option<Vec<String>> {
    let mut arguments = std::env::args().skip(1);
    (arguments.next()? == ROLE).then(|| arguments.collect())
}

/// The roles of an app. After SIGTERM the ordinary app accepts no new connection, answers the
/// requests that it has, and ends. The patient app does the same after [`PATIENT`] without a
/// request, so it waits for clients that learn slowly that the pod leaves.
pub(crate) const ORDINARY_APP: &str = "app";
pub(crate) const PATIENT_APP: &str = "patient-app";

const PATIENT: Duration = Duration::from_secs(5);

/// Runs a role: `pause`, `app ADDRESS`, `patient-app ADDRESS`, or `call ADDRESS HOST PATH CODE`.
pub(crate) fn run(arguments: &[String]) -> ExitCode {
    let outcome = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()
        .context("a runtime");
    match outcome.and_then(|runtime| runtime.block_on(role(arguments))) {
        Ok(code) => ExitCode::from(code),
        Err(failure) => {
            say(&format!("{failure:#}"));
            ExitCode::from(70)
        }
    }
}

async fn role(arguments: &[String]) -> Outcome<u8> {
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match arguments.as_slice() {
        ["pause"] => terminated().await.map(|()| 0),
        [ORDINARY_APP, address] => app(address.parse()?, Duration::ZERO).await.map(|()| 0),
        [PATIENT_APP, address] => app(address.parse()?, PATIENT).await.map(|()| 0),
        ["call", address, host, path, code] => {
            call(address.parse()?, host, path).await.and(code.parse().context("an exit code"))
        }
        other => bail!("no role: {other:?}"),
    }
}

async fn terminated() -> Outcome {
    let mut signal = signal(SignalKind::terminate())?;
    signal.recv().await.context("no signal will come")
}

/// An app that ends after SIGTERM, once no request has come for this time.
async fn app(address: SocketAddr, unasked: Duration) -> Outcome {
    let listener =
        TcpListener::bind(address).await.with_context(|| format!("listening on {address}"))?;
    let (stop, stopping) = watch::channel(false);
    let (asked, last_request) = watch::channel(Instant::now());
    let mut connections = JoinSet::new();
    let mut terminated = pin!(async {
        terminated().await?;
        say("SIGTERM");
        let mut left = unasked;
        while !left.is_zero() {
            sleep(left).await;
            left = unasked.saturating_sub(last_request.borrow().elapsed());
        }
        Outcome::Ok(())
    });
    loop {
        tokio::select! {
            ended = &mut terminated => {
                ended?;
                break;
            }
            accepted = listener.accept() => {
                let (tcp, _) = accepted?;
                tcp.set_nodelay(true)?;
                connections.spawn(connection(tcp, asked.clone(), stopping.clone()));
            }
            Some(_) = connections.join_next() => {}
        }
    }
    drop(listener);
    stop.send(true).ok(); // no client is connected
    say(&format!("{} connections are open", connections.len()));
    while connections.join_next().await.is_some() {}
    say("all answered");
    Ok(())
}

async fn connection(
    tcp: TcpStream,
    asked: watch::Sender<Instant>,
    mut stopping: watch::Receiver<bool>,
) -> Outcome {
    let mut wire = Wire::plain(tcp);
    loop {
        let head = tokio::select! {
            head = wire.head() => head?,
            _ = stopping.wait_for(|stop| *stop) => return Ok(()), // idle: no request is lost
        };
        let Some(head) = head else { return Ok(()) };
        asked.send_replace(Instant::now());
        if head.headers.get("upgrade").is_some_and(|value| value.eq_ignore_ascii_case("websocket"))
        {
            return websocket::serve(&mut wire).await;
        }
        wire.body(Framing::of_request(&head)).await?;
        if let Some(rest) = head.word(1).strip_prefix(EVENTS) {
            return events(&mut wire, rest, stopping).await;
        }
        sleep(time_of(head.word(1))).await;
        let last = *stopping.borrow();
        wire.send(answer(last).as_bytes()).await?;
        if last {
            return Ok(());
        }
    }
}

/// The path of the event stream. `/events/COUNT` ends after so many events, as the answer of a
/// language model does.
pub(crate) const EVENTS: &str = "/events";

/// Sends an event at once and each second, until all are sent, the client leaves or the app ends.
async fn events(wire: &mut Wire, rest: &str, mut stopping: watch::Receiver<bool>) -> Outcome {
    let head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\
        transfer-encoding: chunked\r\n\r\n";
    wire.send(head.as_bytes()).await?;
    let mut left = rest.trim_start_matches('/').parse().unwrap_or(u32::MAX);
    while left > 0 && !*stopping.borrow() {
        left -= 1;
        wire.send(b"9\r\ndata: 1\n\n\r\n").await?;
        tokio::select! {
            () = sleep(Duration::from_secs(1)) => {}
            changed = stopping.changed() => changed?,
        }
    }
    wire.send(b"0\r\n\r\n").await
}

/// The time that a request takes: `/takes/MILLISECONDS`; every other path takes none.
fn time_of(path: &str) -> Duration {
    let millis =
        path.strip_prefix("/takes/").and_then(|rest| rest.split(['/', '?']).next()?.parse().ok());
    Duration::from_millis(millis.unwrap_or(0))
}

fn answer(last: bool) -> String {
    let close = if last { "connection: close\r\n" } else { "" };
    format!("HTTP/1.1 200 OK\r\ncontent-length: 4\r\n{close}\r\ndone")
}

/// The work of a Job: one call through the proxy, which must be answered.
async fn call(address: SocketAddr, host: &str, path: &str) -> Outcome {
    let response = h1::once(address, &Request::get(path).host(host)).await?;
    say(&format!("{} for {path} of {host}", response.status));
    ensure!(response.status == 200, "{}: {}", response.status, response.text());
    Ok(())
}
