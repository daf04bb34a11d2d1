//! Envoys in which variants run side by side, and the first steps of every measurement.

use crate::site::Site;
use crate::variants::Variant;
use kit::admin_cluster::admin_cluster;
use kit::prelude::*;

const BEGUN: &str = "wasmcustom.laststream_streams_begun_gateway_total";

/// A bootstrap with a listener for each variant, and the gate if any variant has one.
pub(crate) fn bootstrap(site: &Site, variants: &[Variant]) -> Outcome<Bootstrap> {
    let listeners =
        variants.iter().map(|variant| variant.listener(site)).collect::<Outcome<Vec<Value>>>()?;
    with_listeners(site, variants, listeners)
}

/// A bootstrap with these listeners instead of the variants' own.
pub(crate) fn with_listeners(
    site: &Site,
    variants: &[Variant],
    mut listeners: Vec<Value>,
) -> Outcome<Bootstrap> {
    if let Some(variant) = variants.iter().find(|variant| variant.beside_gate) {
        listeners.push(variant.gate(site)?);
    }
    let bootstrap = Bootstrap::new()
        .cluster(admin_cluster("admin"))
        .with("/static_resources/listeners", json!(listeners));
    Ok(bootstrap.with("/stats_flush_interval", json!("299s"))) // a flush would be counted
}

/// Options that make Envoy log little, because each line would cost something.
pub(crate) fn quietly(workers: u32) -> Options {
    Options {
        concurrency: workers,
        log_level: "warning".into(),
        component_log_level: "wasm:warning".into(),
        ..Options::default()
    }
}

/// Checks that the variant does its work: a filter that failed to load may let requests pass, and
/// would look cheap.
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
    ensure_eq!(counted, u64::from(variant.counts()), "counted requests, {}", variant.name);
    Ok(())
}

/// Sends requests one after the other.
pub(crate) async fn ask(client: &mut Client, request: &Request, times: usize) -> Outcome {
    for _ in 0..times {
        client.request(request).await?.expect(200)?;
    }
    Ok(())
}
