//! Envoys in which variants stand side by side, and what every measurement does with them first.

use crate::site::Site;
use crate::variants::{Around, Variant};
use kit::admin_cluster::admin_cluster;
use kit::prelude::*;

const BEGUN: &str = "wasmcustom.laststream_streams_begun_gateway_total";

/// A listener for each variant, and the gate where they have one.
pub(crate) fn bootstrap(site: &Site, variants: &[Variant]) -> Outcome<Bootstrap> {
    let listeners =
        variants.iter().map(|variant| variant.listener(site)).collect::<Outcome<Vec<Value>>>()?;
    with_listeners(site, variants, listeners)
}

/// The same with listeners of one's own.
pub(crate) fn with_listeners(
    site: &Site,
    variants: &[Variant],
    mut listeners: Vec<Value>,
) -> Outcome<Bootstrap> {
    if let Some(variant) = variants.iter().find(|variant| variant.around != Around::Nothing) {
        listeners.push(variant.gate(site)?);
    }
    let bootstrap = Bootstrap::new()
        .cluster(admin_cluster("admin"))
        .with("/static_resources/listeners", json!(listeners));
    Ok(bootstrap.with("/stats_flush_interval", json!("299s"))) // it would be counted now and then
}

/// Each line that Envoy logs would cost something.
pub(crate) fn quietly(workers: u32) -> Options {
    Options {
        concurrency: workers,
        log_level: "warning".into(),
        component_log_level: "wasm:warning".into(),
        ..Options::default()
    }
}

/// Begins a drain, if the variants are about requests during one.
pub(crate) async fn begin_drain_if_needed(envoy: &Envoy, around: Around) -> Outcome {
    if around == Around::Drain {
        let gate = envoy.address("gate").await?;
        once(gate, &Request::post("/drain", "").host("localhost")).await?.expect(202)?;
        let status =
            once(gate, &Request::get("/status").host("localhost")).await?.expect(200)?.json()?;
        ensure_eq!(status["state"].as_str(), Some("draining"), "the gate");
    }
    Ok(())
}

/// Whether the variant does its work: a filter that failed to load may let requests pass, and would
/// be cheap.
pub(crate) async fn prove(envoy: &Envoy, variant: &Variant) -> Outcome {
    let before = envoy.stat(BEGUN).await?.unwrap_or_default();
    let answer =
        once(envoy.address(variant.name).await?, &variant.request("/seen")).await?.expect(200)?;
    ensure_eq!(
        answer.header("x-seen").as_deref(),
        Some(variant.seen),
        "x-forwarded-proto at the app, {}",
        variant.name
    );
    let counted = envoy.stat(BEGUN).await?.unwrap_or_default() - before;
    ensure_eq!(counted, u64::from(variant.counts), "counted requests, {}", variant.name);
    Ok(())
}

/// One request after the other.
pub(crate) async fn ask(client: &mut Client, request: &Request, times: usize) -> Outcome {
    for _ in 0..times {
        client.request(request).await?.expect(200)?;
    }
    Ok(())
}

/// Requests to anything else go to the cluster `app`.
pub(crate) fn forwarding(mut listener: Value) -> Outcome<Value> {
    let route =
        json!({ "match": { "prefix": "/" }, "route": { "cluster": "app", "timeout": "0s" } });
    let manager = &mut listener["filter_chains"][0]["filters"][0]["typed_config"];
    manager["route_config"]["virtual_hosts"][0]["routes"]
        .as_array_mut()
        .context("routes")?
        .push(route);
    Ok(listener)
}
