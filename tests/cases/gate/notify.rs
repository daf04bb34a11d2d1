//! The call that notifies the app of the drain: an app that ends its own streams, and apps that
//! cannot be notified.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use tokio::net::TcpStream;
use tokio::sync::watch;

use super::bench::{Bench, SOON, same};
use crate::cases::stage::routes;
use crate::lab::{Lab, cases};
use kit::prelude::*;
use kit::server::Server;
use kit::wire::{Framing, Wire};

cases! {
    a_notified_app_ends_its_own_streams,
    an_app_that_cannot_be_notified_delays_nothing,
}

/// An app with event streams, which go on until it is notified.
struct App {
    server: Server,
    told: Arc<Mutex<Vec<Instant>>>,
}

/// The app's answers to notifications, the last one for all further ones. `None` is no answer at
/// all.
type Answers = &'static [Option<u16>];

#[derive(Clone)]
struct Behaviour {
    answers: Answers,
    told: Arc<Mutex<Vec<Instant>>>,
    ends: watch::Sender<bool>,
}

impl App {
    async fn start(answers: Answers) -> Outcome<Self> {
        let told = Arc::default();
        let behaviour =
            Behaviour { answers, told: Arc::clone(&told), ends: watch::Sender::new(false) };
        let server = Server::start(move |tcp| serve(tcp, behaviour.clone())).await?;
        Ok(Self { server, told })
    }

    fn told(&self) -> Vec<Instant> {
        self.told.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

async fn serve(tcp: TcpStream, app: Behaviour) -> Outcome {
    let mut wire = Wire::plain(tcp);
    while let Some(head) = wire.head().await? {
        wire.body(Framing::of_request(&head)).await?;
        if head.start.starts_with("POST /drain ") {
            let count = {
                let mut told = app.told.lock().unwrap_or_else(PoisonError::into_inner);
                told.push(Instant::now());
                told.len()
            };
            let Some(status) = app.answers[count.min(app.answers.len()) - 1] else {
                return std::future::pending().await;
            };
            if status == 204 {
                app.ends.send_replace(true);
            }
            let length = if status == 204 { "" } else { "content-length: 0\r\n" };
            wire.send(format!("HTTP/1.1 {status} so\r\n{length}\r\n").as_bytes()).await?;
        } else {
            let start = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\
                         transfer-encoding: chunked\r\n\r\n9\r\ndata: 1\n\n\r\n";
            wire.send(start.as_bytes()).await?;
            app.ends.subscribe().wait_for(|ends| *ends).await?;
            wire.send(b"9\r\ndata: 2\n\n\r\n0\r\n\r\n").await?;
        }
    }
    Ok(())
}

/// `timeout_ms` is the time-out of a call to the app.
async fn bench(lab: &Lab, app: SocketAddr, timeout_ms: u32) -> Outcome<Bench> {
    let notify = json!({ "cluster": "the-app", "path": "/drain", "timeout_ms": timeout_ms });
    let gate = json!({ "quiet_ms": 300, "deadline_ms": 30_000, "notify": notify }).to_string();
    let hcm = Hcm::new("main").filter(lab.stream("{}").filter());
    let hcm = hcm.route(Route::prefix("/events").cluster("the-app").timeout("0s"));
    let bootstrap = Bootstrap::new().cluster(cluster::h1("the-app", app));
    Bench::upon(bootstrap, lab, &gate, routes(hcm)).await
}

async fn a_notified_app_ends_its_own_streams(lab: &Lab) -> Outcome {
    let app = App::start(&[Some(204)]).await?;
    let bench = bench(lab, app.server.address, 60_000).await?;
    let mut streams = Vec::new();
    for _ in 0..20 {
        let mut client = Client::connect(bench.main).await?;
        client.send(&Request::get("/events").bytes()).await?;
        let (response, framing) = client.response_head("GET").await?;
        response.expect(200)?;
        streams.push((client, framing));
    }
    bench.until("holding", 20).await?;
    let status = bench.status().await?;
    ensure!(status["notify"].is_null(), "nothing is told while serving: {status}");
    ensure!(app.told().is_empty(), "the app was told too early");
    bench.post("/drain").await?.expect(202)?;
    for (client, framing) in &mut streams {
        let mut body = Vec::new();
        while let Some(piece) = client.piece(framing).await? {
            body.extend_from_slice(&piece);
        }
        ensure_eq!(body, b"data: 1\n\ndata: 2\n\n", "a stream that the app ended");
    }
    let status = bench.until("state", "drained").await?;
    same(&status, "notify", "done")?;
    ensure_eq!(app.told().len(), 1, "calls of two workers");
    ensure!(bench.envoy.log_contains("the app was told that the drain has begun"), "the log");
    Ok(())
}

/// An app that is away, one that never answers, and one that refuses: the gate opens as it does
/// without `notify`.
async fn an_app_that_cannot_be_notified_delays_nothing(lab: &Lab) -> Outcome {
    let slow = App::start(&[None]).await?;
    let refusing = App::start(&[Some(500)]).await?;
    let away = Upstream::start().await?;
    // The call to the slow app lasts longer than this case. The others fail at once, and after
    // three tries no more are made.
    let (lasts, ends) = (&["under way"][..], &["under way", "failed"][..]);
    for (what, address, expected) in [
        ("away", away.refused(), ends),
        ("slow", slow.server.address, lasts),
        ("refusing", refusing.server.address, ends),
    ] {
        let is_expected = |status: &Value| {
            status["notify"].as_str().is_some_and(|notify| expected.contains(&notify))
        };
        let bench = bench(lab, address, 60_000).await?;
        let mut held = bench.held("a").await?;
        bench.post("/drain").await?.expect(202)?;
        wait_for(SOON, &format!("{what}: notify to be one of {expected:?}"), async || {
            let status = bench.status().await?;
            ensure!(is_expected(&status), "{status}");
            Ok(())
        })
        .await?;
        bench.release("a", &mut held).await?;
        let status = bench.until("state", "drained").await?;
        ensure!(is_expected(&status), "{what}: {status}");
        bench.delete("/drain").await?.expect(200)?;
        same(&bench.status().await?, "notify", Value::Null)?;
    }
    Ok(())
}
