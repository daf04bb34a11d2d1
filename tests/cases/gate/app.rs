//! Waiting for the app to go: behaviour of an app that is still there, its end, and an app whose
//! state is not known.

use std::sync::{Arc, Mutex};

use tokio::net::{TcpSocket, TcpStream};
use tokio::time::{Instant, sleep, timeout};

use super::bench::{Bench, same};
use super::states::kept;
use crate::cases::stage::hcm;
use crate::lab::{Lab, cases};
use kit::fake_server::{FakeServer, Fault};
use kit::locked;
use kit::prelude::*;
use kit::wire::local;

cases! {
    holds_until_the_app_has_gone,
    an_app_that_answers_anything_is_there,
    an_app_that_takes_no_connection_is_there,
    an_app_that_envoy_cannot_ask_does_not_move_the_deadline,
}

/// The drain makes no call to Envoy, so that it can be cancelled.
fn gate(deadline: u64) -> String {
    format!(
        r#"{{
            "quiet_ms": 300, "deadline_ms": {deadline}, "begin": {{"call": "nothing"}},
            "admin": {{"timeout_ms": 400}}, "app": {{"cluster": "the-app"}}
        }}"#
    )
}

async fn bench(lab: &Lab, app: Value, deadline: u64) -> Outcome<Bench> {
    Bench::upon(Bootstrap::new().cluster(app), lab, &gate(deadline), hcm(lab, "{}")).await
}

/// Checks that the gate stays closed for this time because of the app, although nothing is in
/// flight. Each worker asks the app.
pub(super) async fn stays(bench: &Bench, time: Duration, why: &str) -> Outcome {
    let until = Instant::now() + time;
    bench.until("reason", why).await?;
    while Instant::now() < until {
        let status = bench.status().await?;
        same(&status, "state", "draining")?;
        same(&status, "holding", 0)?;
        ensure!(
            [why, "the app is being asked whether it is still there"]
                .contains(&status["reason"].as_str().unwrap_or_default()),
            "{status}"
        );
        sleep(Duration::from_millis(50)).await;
    }
    Ok(())
}

pub(super) const THERE: &str = "the app is still there";
const UNREACHABLE: &str = "Envoy cannot ask the app, its cluster is missing or has no healthy \
    endpoint: holding until the deadline";

/// The usual app serves until its port closes.
async fn holds_until_the_app_has_gone(lab: &Lab) -> Outcome {
    let app = Upstream::start().await?;
    let bench = bench(lab, cluster::h1("the-app", app.h1()), 90_000).await?;
    let hook = bench.hook();
    stays(&bench, Duration::from_secs(2), THERE).await?;
    ensure!(!hook.is_finished(), "the hook is held");
    drop(app);
    let gone = Instant::now();
    same(&hook.await??.expect(200)?.json()?, "state", "drained")?;
    say(&format!(
        "the hook returned {} ms after the app's port had closed",
        gone.elapsed().as_millis()
    ));
    ensure!(gone.elapsed() > Duration::from_millis(300), "the quiet period comes after");
    Ok(())
}

/// Answers of an app that is there. Some look like those that Envoy gives in its place.
const ANSWERS: [&[u8]; 6] = [
    b"",
    b"no HTTP at all\r\n\r\n",
    b"HTTP/1.1 503 no\r\ncontent-length: 19\r\n\r\nno healthy upstream",
    b"HTTP/1.1 503 no\r\ncontent-length: 98\r\n\r\n\
      upstream connect error or disconnect/reset before headers. reset reason: remote \
      connection failure",
    b"HTTP/1.1 200 breaks off\r\ncontent-length: 100\r\n\r\nupstream connect error",
    b"HTTP/1.1 404 fine\r\ncontent-length: 0\r\n\r\n",
];

async fn an_app_that_answers_anything_is_there(lab: &Lab) -> Outcome {
    let silence = Fault::Silence(Duration::from_secs(60));
    let says = Arc::new(Mutex::new(silence.clone()));
    let say = |fault| *locked(&says) = fault;
    let known = Arc::clone(&says);
    let app = FakeServer::start(move |_, _| Err(locked(&known).clone()))?;
    let bench = bench(lab, cluster::h1("the-app", app.address), 90_000).await?;
    for fault in ANSWERS.map(Fault::Bytes).into_iter().chain([silence]) {
        let what = format!("an app with {fault:?}");
        say(fault);
        bench.post("/drain").await?.expect(202)?;
        stays(&bench, Duration::from_secs(1), THERE).await.context(what)?;
        bench.delete("/drain").await?.expect(200)?;
    }
    say(Fault::End);
    bench.post("/drain").await?.expect(202)?;
    bench.until("state", "drained").await?;
    Ok(())
}

/// Its accept queue is full, so the kernel drops further connections, as for an app that is stopped
/// or swapped out.
async fn an_app_that_takes_no_connection_is_there(lab: &Lab) -> Outcome {
    let socket = TcpSocket::new_v4()?;
    socket.bind(local(0))?;
    let full = socket.listen(1)?;
    let address = full.local_addr()?;
    let mut queue = Vec::new();
    while let Ok(connection) =
        timeout(Duration::from_millis(300), TcpStream::connect(address)).await
    {
        queue.push(connection?);
        ensure!(queue.len() < 100, "the queue is never full");
    }
    let app = cluster::with(cluster::h1("the-app", address), "/connect_timeout", json!("0.2s"));
    let bench = bench(lab, app, 90_000).await?;
    bench.post("/drain").await?.expect(202)?;
    stays(&bench, Duration::from_secs(2), THERE).await?;
    drop((full, queue));
    bench.until("state", "drained").await?;
    Ok(())
}

/// The cluster does not exist, has no endpoint, or has no healthy one, as when an app that has
/// begun to stop fails its health checks.
async fn an_app_that_envoy_cannot_ask_does_not_move_the_deadline(lab: &Lab) -> Outcome {
    let app = Upstream::start().await?;
    let known = || cluster::h1("the-app", app.h1());
    let check = json!([{
        "timeout": "1s", "interval": "0.1s", "no_traffic_interval": "0.1s",
        "unhealthy_threshold": 1, "healthy_threshold": 1,
        "http_health_check": { "path": "/status/503" }
    }]);
    let unhealthy = cluster::with(
        cluster::with(known(), "/health_checks", check),
        "/common_lb_config/healthy_panic_threshold/value",
        json!(0),
    );
    for (what, app) in [
        ("no cluster", cluster::h1("another", app.h1())),
        ("no endpoint", cluster::with(known(), "/load_assignment/endpoints", json!([]))),
        ("no healthy endpoint", unhealthy),
    ] {
        let bench = bench(lab, app, 2_500).await?;
        bench.post("/drain").await?.expect(202)?;
        stays(&bench, Duration::from_secs(1), UNREACHABLE).await.with_context(|| what)?;
        kept(&bench, 2_500).await.with_context(|| what)?;
        ensure!(
            bench.envoy.log_contains(&format!("draining: {UNREACHABLE}")),
            "{what}: the log says why"
        );
    }
    Ok(())
}
