//! `GET /streams` lists the streams that hold the drain, the oldest first. The list is fresh, and
//! is marked as complete only if it is.

use std::time::{Duration, Instant};

use ::h2::Reason;
use tokio::time::sleep;

use super::bench::{Bench, SOON, same};
use crate::cases::stage::{ACTIVE, routes};
use crate::lab::{Lab, cases};
use kit::bootstrap::filters::filter_state;
use kit::h2;
use kit::prelude::*;
use kit::websocket::WebSocket;

cases! {
    lists_every_kind_oldest_first,
    a_listing_is_fresh,
    only_streams_that_hold_are_listed,
}

async fn listing(bench: &Bench, query: &str) -> Outcome<Value> {
    bench.get(&format!("/streams{query}")).await?.expect(200)?.json()
}

fn streams(listing: &Value) -> Outcome<&Vec<Value>> {
    listing["streams"].as_array().context("a list of streams")
}

fn requests(listing: &Value) -> Outcome<Vec<&str>> {
    Ok(streams(listing)?
        .iter()
        .map(|stream| stream["request"].as_str().unwrap_or_default())
        .collect())
}

/// The module, with the request's method and target in filter state.
fn telling(lab: &Lab, rules: &str) -> Hcm {
    let request =
        filter_state("laststream.request", "%REQ(:METHOD)% %REQ(:AUTHORITY)%%REQ(:PATH)%");
    routes(Hcm::new("main").filter(request).filter(lab.stream(rules).filter()))
}

async fn lists_every_kind_oldest_first(lab: &Lab) -> Outcome {
    const BETWEEN: Duration = Duration::from_millis(20);
    let rules = r#"{"count": {"long_lived": {"upgrades": true}}}"#;
    let bench = Bench::with(lab, "{}", telling(lab, rules)).await?;
    let waiting = bench.held("a").await?;
    sleep(BETWEEN).await;
    let events = Request::get("/stream/20/b").host("app");
    let (mut events, mut framing) = Client::with_open_response(bench.main, &events).await?;
    events.piece(&mut framing).await?;
    sleep(BETWEEN).await;
    let mut socket = WebSocket::open(bench.main, "/ws").await?;
    socket.echo("hello").await?;
    sleep(BETWEEN).await;
    let mut connection = h2::Client::connect(bench.main).await?;
    let mut call = connection.open(h2::request("POST", "http", "/grpc"), false).await?;
    call.send("piece", false).await?;
    call.head().await?;
    call.piece().await?;

    check_the_four_kinds(&listing(&bench, "").await?)?;
    let first = listing(&bench, "?limit=1").await?;
    ensure!(requests(&first)?.len() == 1 && first["complete"] == false, "{first}");
    drop((waiting, events));
    socket.close(1000).await?;
    call.reset(Reason::CANCEL);
    let empty = wait_for(SOON, "an empty listing", async || {
        let listing = self::listing(&bench, "").await?;
        if streams(&listing)?.is_empty() && listing["complete"] == true {
            Ok(listing)
        } else {
            bail!("{listing}")
        }
    });
    same(&empty.await?, "holding", 0)
}

/// A held request, server-sent events, a WebSocket and a gRPC call, in that order.
fn check_the_four_kinds(listing: &Value) -> Outcome {
    say(&listing.to_string());
    same(listing, "complete", true)?;
    same(listing, "holding", 4)?;
    let asked: Vec<_> = requests(listing)?
        .iter()
        .map(|request| request.split('/').nth(1).unwrap_or_default())
        .collect();
    ensure_eq!(asked, ["hold", "stream", "ws", "grpc"], "the oldest first: {listing}");
    let [first, second, third, fourth] = &streams(listing)?[..] else { bail!("four: {listing}") };
    let ages: Vec<_> = [first, second, third, fourth]
        .map(|stream| stream["age_ms"].as_u64().unwrap_or_default())
        .into();
    ensure!(ages.windows(2).all(|pair| pair[0] >= pair[1] + 20), "ages {ages:?}");
    ensure!(first["status"].is_null(), "no answer yet: {first}");
    same(second, "request", "GET app/stream/20/b")?;
    for (stream, status, protocol, cluster, route, long) in [
        (second, 200, "HTTP/1.1", "app", "rest", false),
        (third, 101, "HTTP/1.1", "app", "rest", true),
        (fourth, 200, "HTTP/2", "app-h2", "streaming", false),
    ] {
        same(stream, "status", status)?;
        same(stream, "protocol", protocol)?;
        same(stream, "cluster", cluster)?;
        same(stream, "route", route)?;
        same(stream, "long_lived", long)?;
        same(stream, "scope", "gateway")?;
        for side in ["peer", "upstream"] {
            let address = stream[side].as_str().unwrap_or_default();
            ensure!(address.starts_with("127.0.0.1:"), "{side}: {stream}");
        }
        ensure!(stream["bytes"].as_u64() > Some(0), "{stream}");
    }
    Ok(())
}

/// Streams that began before the request are listed, and streams that ended before it are not; on
/// both workers.
async fn a_listing_is_fresh(lab: &Lab) -> Outcome {
    let bench = Bench::with(lab, "{}", telling(lab, "{}")).await?;
    bench.until("count", "exact").await?;
    let mut slowest = Duration::ZERO;
    for round in 0..40 {
        let key = format!("key-{round}");
        let mut client = bench.held(&key).await?;
        let at = Instant::now();
        let before = listing(&bench, "").await?;
        slowest = slowest.max(at.elapsed());
        ensure!(
            requests(&before)?.iter().any(|request| request.ends_with(&key)),
            "{key} is there: {before}"
        );
        same(&before, "complete", true)?;
        bench.release(&key, &mut client).await?;
        // The client has the answer a moment before Envoy stops counting the stream.
        bench.envoy.wait_for_stat(ACTIVE, 0, SOON).await?;
        let after = listing(&bench, "").await?;
        ensure!(
            !requests(&after)?.iter().any(|request| request.ends_with(&key)),
            "{key} is gone: {after}"
        );
    }
    say(&format!("the slowest of 40 listings took {slowest:?}"));
    Ok(())
}

/// Exempt streams do not hold: neither the upgrades, nor streams that were old when the drain
/// began.
async fn only_streams_that_hold_are_listed(lab: &Lab) -> Outcome {
    let gate = r#"{
        "quiet_ms": 300, "deadline_ms": 90000, "long_lived": "exempt", "long_lived_after_ms": 1500
    }"#;
    let bench = Bench::with(
        lab,
        gate,
        telling(lab, r#"{"count": {"ages": true, "long_lived": {"upgrades": true}}}"#),
    )
    .await?;
    let mut socket = WebSocket::open(bench.main, "/ws").await?;
    let mut old = bench.held("old").await?;
    sleep(Duration::from_secs(2)).await;
    let mut young = bench.held("young").await?;
    let before = listing(&bench, "").await?;
    ensure_eq!(requests(&before)?.len(), 2, "nothing is old before a drain: {before}");
    bench.post("/drain").await?.expect(202)?;
    let status = bench.until("holding", 1).await?;
    same(&status["scopes"][0], "in_flight", 3)?;
    same(&status["scopes"][0], "long_lived", 2)?;
    let now = listing(&bench, "").await?;
    ensure!(requests(&now)?.len() == 1 && requests(&now)?[0].ends_with("young"), "{now}");
    same(&now, "complete", true)?;
    bench.get("/ready").await?.expect(503)?;
    bench.release("young", &mut young).await?;
    bench.until("state", "drained").await?;
    socket.echo("still").await?;
    bench.release("old", &mut old).await?;
    socket.close(1000).await?;
    for gauge in ["in_flight", "long_lived"] {
        let name = format!("wasmcustom.laststream_streams_{gauge}_gateway");
        bench.envoy.wait_for_stat(&name, 0, SOON).await?;
    }
    Ok(())
}
