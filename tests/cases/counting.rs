//! Streams in flight are counted exactly, over all workers.

use crate::cases::stage::{ACTIVE, BEGUN, SOON, Stage};
use crate::lab::{Lab, cases};
use kit::h2;
use kit::prelude::*;
use kit::websocket::WebSocket;

cases! {
    empty_configuration_counts_and_touches_nothing,
    held_streams_are_counted_exactly,
}

async fn empty_configuration_counts_and_touches_nothing(lab: &Lab) -> Outcome {
    let stage = Stage::set(lab, "").await?;
    let shown = stage.envoy.prometheus().await?;
    for metric in [
        "streams_in_flight_gateway",
        "streams_long_lived_gateway",
        "streams_begun_gateway_total",
        "streams_excluded_gateway_total",
    ] {
        ensure!(
            shown.contains(&format!("laststream_{metric}{{}} 0")),
            "{metric} is visible, and zero, from the start"
        );
    }
    let used = stage.envoy.admin_get("/stats?usedonly&filter=laststream").await?.text();
    // All but the gauge of long-lived streams, which is used from the first of them on.
    ensure_eq!(used.lines().count(), 3, "metrics that Envoy calls used: {used}");
    let sent = Request::get("/echo")
        .header("x-forwarded-proto", "https")
        .header("X-Forwarded-Port", "443")
        .header("forwarded", "proto=https");
    once(stage.main, &sent).await?.expect(200)?;
    let seen = stage.upstream.last()?;
    ensure_eq!(seen.header("x-forwarded-proto"), Some("https".into()), "x-forwarded-proto");
    ensure_eq!(seen.header("x-forwarded-port"), Some("443".into()), "x-forwarded-port");
    ensure_eq!(seen.header("forwarded"), Some("proto=https".into()), "forwarded");
    ensure_eq!(stage.envoy.stat(BEGUN).await?, Some(1), "begun");
    stage.wait_until_idle().await
}

/// HTTP/1 on many connections, HTTP/2 on few, and WebSockets: every reading equals the number of
/// streams that are held.
async fn held_streams_are_counted_exactly(lab: &Lab) -> Outcome {
    let stage = Stage::set(lab, "{}").await?;
    let clients = stage.upstream.hold_many(stage.main, "h1", 40).await?;
    on_both_workers(&stage).await?;
    stage.always_counts(40).await?;
    let (connections, mut streams) = hold_h2(&stage).await?;
    stage.always_counts(120).await?;

    let mut sockets = Vec::new();
    for _ in 0..5 {
        sockets.push(WebSocket::open(stage.main, "/echo").await?);
    }
    stage.always_counts(125).await?;

    stage.upstream.release("h1");
    for mut client in clients {
        client.response("GET").await?.expect(200)?;
    }
    stage.envoy.wait_for_stat(ACTIVE, 85, SOON).await?;
    stage.always_counts(85).await?;
    for stream in streams.drain(..40) {
        stream.reset(::h2::Reason::CANCEL);
    }
    stage.envoy.wait_for_stat(ACTIVE, 45, SOON).await?;
    stage.always_counts(45).await?;
    for socket in sockets {
        socket.reset()?;
    }
    drop((streams, connections));
    stage.wait_until_idle().await?;
    ensure_eq!(stage.envoy.stat(BEGUN).await?, Some(125), "begun");
    Ok(())
}

/// 80 streams on four connections.
async fn hold_h2(stage: &Stage) -> Outcome<(Vec<h2::Client>, Vec<h2::Stream>)> {
    let (mut connections, mut streams) = (Vec::new(), Vec::new());
    for _ in 0..4 {
        let mut connection = h2::Client::connect(stage.main).await?;
        for _ in 0..20 {
            streams.push(connection.open(h2::get("/hold/h2"), true).await?);
        }
        connections.push(connection);
    }
    stage.upstream.wait_held("h2", 80, SOON).await?;
    Ok((connections, streams))
}

async fn on_both_workers(stage: &Stage) -> Outcome {
    let stats = stage.envoy.stats().await?;
    let busy = stats.iter().filter(|(name, value)| {
        name.ends_with(".downstream_cx_active")
            && name.contains(".worker_")
            && !name.contains("admin")
            && **value > 0
    });
    ensure_eq!(busy.count(), 2, "workers with connections");
    Ok(())
}
