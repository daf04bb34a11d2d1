//! TCP connections that hold a drain: Envoy counts them, beside either count of streams.

use futures_util::future::try_join_all;
use tokio::time::{Instant, sleep};

use super::bench::{Bench, gate_listener, options, same, says, with_clusters};
use super::watch::{lets_nothing_out, opens};
use crate::cases::stage::{hcm, routes};
use crate::lab::{Lab, cases};
use kit::bootstrap::only_stats_with_prefixes;
use kit::prelude::*;

cases! {
    a_connection_holds_until_it_ends,
    short_connections_begin_the_quiet_period_anew,
    connections_that_envoy_does_not_export_hold_until_the_deadline,
}

const CONNECTIONS: &str = "connection_limit.laststream.active_connections";

/// Envoy's filter that counts connections.
fn limit(stat_prefix: &str) -> Value {
    json!({
        "name": "envoy.filters.network.connection_limit",
        "typed_config": {
            "@type": "type.googleapis.com/envoy.extensions.filters.network.connection_limit.v3\
                .ConnectionLimit",
            "stat_prefix": stat_prefix, "max_connections": 4_294_967_295_u64,
        },
    })
}

fn tcp_listener() -> Listener {
    let proxy = json!({
        "name": "envoy.filters.network.tcp_proxy",
        "typed_config": {
            "@type": "type.googleapis.com/envoy.extensions.filters.network.tcp_proxy.v3.TcpProxy",
            "stat_prefix": "db", "cluster": "app",
        },
    });
    let listener = Listener::new("db", Hcm::new("unused"));
    listener.with("/filter_chains/0/filters", json!([proxy])).first(limit("laststream"))
}

/// A gate that counts streams like this and waits for TCP connections, too.
async fn bench(lab: &Lab, count: &str, more: &str, bootstrap: Bootstrap) -> Outcome<Bench> {
    let gate = format!(r#"{{"count": "{count}", "tcp": true, "quiet_ms": 600, {more}}}"#);
    let main = if count == "envoy" { routes(Hcm::new("main")) } else { hcm(lab, "{}") };
    let upstream = Upstream::start().await?;
    let bootstrap = with_clusters(bootstrap, &upstream)
        .listener(Listener::new("main", main).direction("INBOUND"))
        .listener(tcp_listener())
        .listener(gate_listener(lab, &gate).first(limit("laststream_gate")));
    let bench = Bench::start(lab, upstream, bootstrap, options()).await?;
    bench.until("counters", 3).await?;
    Ok(bench)
}

/// Connections through the listener of TCP, each of which has had an answer.
async fn connect(bench: &Bench, number: usize) -> Outcome<Vec<Client>> {
    let to = bench.envoy.address("db").await?;
    let mut clients = Vec::new();
    for _ in 0..number {
        let mut client = Client::connect(to).await?;
        client.get("/echo").await?.expect(200)?;
        clients.push(client);
    }
    Ok(clients)
}

/// The connections of [`churn`].
const SHORT: usize = 200;

/// Connections that begin and end beside each other, which the numbers after them must not keep.
async fn churn(bench: &Bench) -> Outcome {
    let rows = (0..8).map(async |_| {
        for _ in 0..SHORT / 8 {
            connect(bench, 1).await?;
        }
        Ok::<(), Error>(())
    });
    try_join_all(rows).await.map(drop)
}

async fn a_connection_holds_until_it_ends(lab: &Lab) -> Outcome {
    for count in ["filter", "envoy"] {
        let bench = bench(lab, count, r#""deadline_ms": 90000"#, Bootstrap::new()).await?;
        churn(&bench).await?;
        let mut clients = connect(&bench, 12).await?;
        for (name, number) in [(CONNECTIONS, 12), ("tcp.db.downstream_cx_total", SHORT as u64 + 12)]
        {
            wait_for(PATIENCE, name, async || {
                ensure_eq!(bench.envoy.stat(name).await?, Some(number), "Envoy's own number");
                Ok(())
            })
            .await?;
        }
        bench.post("/drain").await?.expect(202)?;
        let status = bench.until("connections", 12).await?;
        same(&status, "holding", 0)?;
        says(&status, "reason", "12 TCP connections are open")?;
        clients.truncate(1);
        bench.until("connections", 1).await?;
        lets_nothing_out(&bench, 8).await?;
        same(&bench.status().await?, "state", "draining")?;
        clients.clear();
        opens(&bench).await?;
        same(&bench.status().await?, "connections", 0)?;
    }
    Ok(())
}

async fn short_connections_begin_the_quiet_period_anew(lab: &Lab) -> Outcome {
    for count in ["filter", "envoy"] {
        let bench = bench(lab, count, r#""deadline_ms": 90000"#, Bootstrap::new()).await?;
        bench.post("/drain").await?.expect(202)?;
        let began = Instant::now();
        while began.elapsed() < Duration::from_secs(3) {
            drop(connect(&bench, 1).await?);
            same(&bench.status().await?, "state", "draining")?;
            sleep(Duration::from_millis(200)).await;
        }
        opens(&bench).await?;
    }
    Ok(())
}

async fn connections_that_envoy_does_not_export_hold_until_the_deadline(lab: &Lab) -> Outcome {
    let mut prefixes = vec!["connection_limit.", "http.", "server."];
    prefixes.extend(["listener_manager.", "wasmcustom."]);
    // Their number is known only with their total, which is among `tcp.`.
    for prefixes in [&prefixes[..], &prefixes[1..]] {
        let bootstrap = Bootstrap::new().stats_matcher(only_stats_with_prefixes(prefixes));
        let bench = bench(lab, "filter", r#""deadline_ms": 4000"#, bootstrap).await?;
        bench.post("/drain").await?.expect(202)?;
        wait_for(PATIENCE, "the reason", async || {
            says(&bench.status().await?, "reason", "Envoy does not export its number of TCP")
        })
        .await?;
        bench.until("state", "expired").await?;
    }
    Ok(())
}
