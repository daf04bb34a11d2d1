//! `POST /end`: a share of the streams ends without a drain.

use tokio::time::{Instant, sleep};

use super::bench::{Bench, SOON, same};
use super::ends::{OLD, bench, evictions};
use crate::lab::{Lab, cases};
use kit::prelude::*;
use kit::process::{Process, guarded};
use kit::programs::program;
use kit::user::User;
use kit::wait::PATIENCE;
use kit::websocket::WebSocket;

cases! {
    a_share_ends_on_command,
    a_browser_connects_anew: 200,
}

async fn a_share_ends_on_command(lab: &Lab) -> Outcome {
    let bench = bench(lab, r#"{"quiet_ms": 300}"#).await?;
    let mut sockets = Vec::new();
    for _ in 0..10 {
        sockets.push(WebSocket::open(bench.main, "/ws").await?);
    }
    let waiting = bench.held("waiting").await?;
    sleep(OLD).await;
    for (query, why) in [
        ("kind=websocket&share=0&over=5s", "share"),
        ("kind=websocket&share=101&over=5s", "share"),
        ("kind=websocket&share=50&over=99999h", "over"),
        ("kind=sockets&share=50&over=5s", "kind"),
        ("", "kind"),
    ] {
        let refused = bench.post(&format!("/end?{query}")).await?.expect(400)?.json()?;
        ensure!(refused["reason"].as_str().is_some_and(|text| text.contains(why)), "{refused}");
    }
    let query = "/end?kind=websocket&share=50&over=2s";
    let dry = bench.post(&format!("{query}&dry_run")).await?.expect(200)?.json()?;
    same(&dry, "matching", 10)?;
    same(&dry, "ending", 5)?;
    ensure_eq!(dry["streams"].as_array().map(Vec::len), Some(10), "{dry}");
    same(&dry["streams"][0], "kind", "websocket")?;
    ensure_eq!(evictions(&bench).await?, 0, "a dry run ends nothing");

    let (one, other) = tokio::join!(bench.post(query), bench.post(query));
    let mut statuses = [one?.status, other?.status];
    statuses.sort_unstable();
    ensure_eq!(statuses, [202, 409], "two at once");
    let late = WebSocket::open(bench.main, "/ws").await?;
    wait_for(SOON, "five ends", async || match evictions(&bench).await? {
        5 => Ok(()),
        other => bail!("{other} ends"),
    })
    .await?;
    sleep(Duration::from_secs(2)).await;
    ensure_eq!(evictions(&bench).await?, 5, "half of ten, and no more");
    same(&bench.status().await?, "holding", 7)?;

    bench.post("/end?kind=websocket,waiting&share=100&over=1h").await?.expect(202)?;
    same(&bench.status().await?["ends"][0], "on_command", true)?;
    bench.delete("/end").await?.expect(200)?;
    let status = bench.status().await?;
    ensure!(status.get("ends").is_none(), "stopped: {status}");
    drop((sockets, waiting, late));
    refuses_without_kinds(lab).await
}

async fn refuses_without_kinds(lab: &Lab) -> Outcome {
    let bench = Bench::set(lab, r#"{"quiet_ms": 300}"#).await?;
    bench.until("count", "exact").await?;
    let _held = bench.held("a").await?;
    let refused = bench.post("/end?kind=waiting&share=100&over=1s").await?.expect(409)?.json()?;
    let says = |reason: &Value| reason.as_str().is_some_and(|text| text.contains("count.kinds"));
    ensure!(says(&refused["reason"]), "{refused}");
    same(&bench.get("/streams").await?.json()?["streams"][0], "kind", Value::Null)
}

/// An EventSource in chromium whose stream was ended opens another by itself, and that one stays.
async fn a_browser_connects_anew(lab: &Lab) -> Outcome {
    let chromium = program("chromium")?;
    let bench = bench(lab, r#"{"quiet_ms": 300}"#).await?;
    let user = User::new()?;
    let source = format!("http://{}/stream/20/browser", bench.main);
    let page = format!("<script>new EventSource({source:?})</script>");
    let page = user.file("page.html", page)?;
    let mut command = guarded(chromium);
    command.args(["--headless", "--no-sandbox", "--disable-gpu", "--disable-web-security"]);
    command.args(["--remote-debugging-port=0"]).env("HOME", user.path("browser"));
    command.arg(format!("--user-data-dir={}", user.path("browser").display()));
    let _browser = Process::capture(command.arg(format!("file://{}", page.display())))?;
    bench.upstream.wait_held("browser", 1, PATIENCE).await?;
    sleep(OLD).await;
    bench.post("/end?kind=event_stream&share=100&over=1s").await?.expect(202)?;
    let ended = Instant::now();
    wait_for(SOON, "another event stream", async || {
        let received = bench.upstream.received();
        let streams = received.iter().filter(|request| request.path.starts_with("/stream"));
        if streams.count() == 2 { Ok(()) } else { bail!("{received:?}") }
    })
    .await?;
    say(&format!("EventSource connected anew after {:?}", ended.elapsed()));
    sleep(OLD).await;
    ensure_eq!(evictions(&bench).await?, 1, "the new stream is left alone");
    same(&bench.status().await?, "holding", 1)
}
