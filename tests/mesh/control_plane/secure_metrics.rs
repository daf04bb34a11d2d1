//! M8: Istio's secure metrics ports, from Istio 1.31 on, beside a gate. Envoy serves them over
//! mTLS, so their scrapes are requests to Envoy. They hold no drain.

use std::fs;
use std::sync::Arc;

use rustls::ClientConfig;

use super::stage::{Stage, WITNESS};
use crate::agent::{Agent, Proxy};
use crate::mesh_tls;
use crate::release::Release;
use crate::seen::row;
use kit::h1::Connect;
use kit::prelude::*;
use kit::wire::{free_port, local};

const ENVOY: u16 = 15091;
const MERGED: u16 = 15092;

pub(super) async fn beside_a_gate() -> Outcome {
    let stage = Stage::new("m8").await?;
    stage.apply(&stage.sidecar_objects(free_port()?)?).await?;
    stage.put(&stage.sidecar_policy("drain: {longest_request: 600s, finish: nothing}\n")).await?;
    let certificates = stage.user.path("certificates");
    fs::create_dir_all(&certificates)?;
    let agent = proxy(&stage, &certificates.display().to_string()).await?;
    stage.answers(200).await?;
    stage.status_with("count", "exact").await?;
    if Release::chosen()? < Release::Istio1_31 {
        return unknown().await;
    }
    held_scrapes(&stage, &agent, &mesh_tls::client(&certificates)?).await?;
    stage.nothing_refused()
}

/// A sidecar with both ports. Its agent writes its certificate, and adds the metrics of the app,
/// which takes its time for them, to Envoy's.
async fn proxy(stage: &Stage, certificates: &str) -> Outcome<Agent> {
    let app = stage.upstream.h1().port().to_string();
    let scrape = json!({ "scrape": "true", "path": "/hold/scrape", "port": app }).to_string();
    let (envoy, merged) = (ENVOY.to_string(), MERGED.to_string());
    let variables = [
        ("ENVOY_SECURE_METRICS_PORT", envoy.as_str()),
        ("ENVOY_SECURE_MERGED_METRICS_PORT", &merged),
        ("ISTIO_PROMETHEUS_ANNOTATIONS", &scrape),
        ("OUTPUT_CERTS", certificates),
    ];
    let proxy = Proxy {
        labels: &[("app", stage.name)],
        annotations: &[WITNESS],
        sidecar: true,
        variables: &variables,
        ..Proxy::default()
    };
    stage.proxy(&proxy).await
}

/// Both ports are scraped. The scrapes lack the end of their requests, and the second waits for the
/// app, so both are in flight during the drain.
async fn held_scrapes(stage: &Stage, agent: &Agent, client: &Arc<ClientConfig>) -> Outcome {
    let scrape = Request::get("/stats/prometheus").header("content-length", "1").bytes();
    let mut envoy = connect(ENVOY, client).await?;
    envoy.send(&scrape).await?;
    let mut merged = connect(MERGED, client).await?;
    merged.send(&scrape).await?;
    stage.upstream.wait_held("scrape", 1, PATIENCE).await?;
    in_flight(agent).await?;
    stage.drain().await?;
    stage.drained().await?;
    in_flight(agent).await?;
    row(
        "M8",
        "secure metrics ports of Istio, a scrape in flight on each; then a drain",
        "`exact`, and drained: Envoy counts a request in flight in `secure_stats` and in \
            `secure_merged_stats`, and the gate waits for neither",
    );
    envoy.send(b"x").await?;
    merged.send(b"x").await?;
    stage.upstream.release("scrape");
    for (mut client, metric) in [(envoy, "envoy_server_live"), (merged, "istio_agent_")] {
        let page = client.response("GET").await?.expect(200)?.text();
        ensure!(page.contains(metric), "no {metric} in {page}");
        ensure!(page.contains("laststream_gate_state"), "no metric of the gate in {page}");
    }
    row("M8", "what both scrapes get over mTLS", "200, with the gate's metrics");
    Ok(())
}

async fn connect(port: u16, client: &Arc<ClientConfig>) -> Outcome<Client> {
    Connect::to(local(port)).tls(client.clone(), "localhost").open().await
}

/// Waits until Envoy counts a request in flight on each port.
async fn in_flight(agent: &Agent) -> Outcome {
    for prefix in ["secure_stats", "secure_merged_stats"] {
        agent.wait_for_stat(&format!("http.{prefix}.downstream_rq_active"), 1).await?;
    }
    Ok(())
}

async fn unknown() -> Outcome {
    for port in [ENVOY, MERGED] {
        let connected = tokio::net::TcpStream::connect(local(port)).await;
        ensure!(connected.is_err(), "port {port} listens");
    }
    row("M8", "secure metrics ports of Istio", "unknown before Istio 1.31: nothing listens there");
    Ok(())
}
