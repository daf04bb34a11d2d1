//! Counters in several listeners, and statistics that a listener exports by itself. Envoy 1.40
//! changed both.

use laststream_local::envoy::Version;

use super::bench::{
    Bench, SOON, bootstrap, gate_listener, main_listener, options, same, with_clusters,
};
use super::watch::holds_until_answered;
use crate::cases::stage::{BEGUN, IN_FLIGHT, routes};
use crate::lab::{Lab, cases};
use kit::bootstrap::only_stats_with_prefixes;
use kit::prelude::*;
use kit::wire::free_port;
use kit::xds::Xds;

cases! {
    one_configuration_in_two_listeners_is_counted_exactly,
    a_matcher_of_the_listener_makes_the_count_exact,
}

const GATE: &str = r#"{"quiet_ms": 300, "deadline_ms": 90000, "assumed_after_ms": 1000}"#;

/// From 1.40 on Envoy runs one plugin for filters that are configured alike, whatever the
/// directions of their listeners.
async fn one_configuration_in_two_listeners_is_counted_exactly(lab: &Lab) -> Outcome {
    let upstream = Upstream::start().await?;
    let other = routes(Hcm::new("other").filter(lab.stream("{}").filter()));
    let bootstrap = bootstrap(&upstream)
        .listener(main_listener(lab))
        .listener(Listener::new("other", other).direction("OUTBOUND"))
        .listener(gate_listener(lab, GATE));
    let bench = Bench::start(lab, upstream, bootstrap, options()).await?;
    bench.until("count", "exact").await?;
    let mut first = bench.held("a").await?;
    let second = bench.held_at("other", "b").await?;
    bench.envoy.wait_for_stat(IN_FLIGHT, 2, SOON).await?;
    bench.until("count", "exact").await?;
    bench.release("a", &mut first).await?;
    bench.envoy.wait_for_stat(IN_FLIGHT, 1, SOON).await?;
    holds_until_answered(&bench, "b", second).await?;
    ensure_eq!(bench.envoy.stat(BEGUN).await?, Some(2), "begun");
    Ok(())
}

/// The first Envoy whose listeners read a matcher in their metadata. Older ones ignore it.
const FIRST_WITH_MATCHERS: Version = Version::new(1, 38, 0);

/// A running proxy with Istio's default statistics. The matcher of docs/gate.md replaces that of
/// the bootstrap for everything in the listener.
async fn a_matcher_of_the_listener_makes_the_count_exact(lab: &Lab) -> Outcome {
    let (upstream, xds) = (Upstream::start().await?, Xds::new()?);
    let kept =
        only_stats_with_prefixes(&["wasmcustom.laststream_", "listener", "server", "cluster"]);
    let main = main_listener(lab).port(free_port()?);
    xds.write_listeners(std::slice::from_ref(&main))?;
    let bootstrap = with_clusters(Bootstrap::new().stats_matcher(kept), &upstream)
        .listeners_from(&xds)
        .listener(gate_listener(lab, GATE));
    let bench = Bench::start(lab, upstream, bootstrap, options()).await?;
    bench.until("count", "assumed").await?;
    let matcher = json!({
        "@type": "type.googleapis.com/envoy.config.metrics.v3.StatsMatcher", "reject_all": false,
    });
    let metadata = json!({ "typed_filter_metadata": { "envoy.stats_matcher": matcher } });
    let main = main.with("/metadata", metadata);
    xds.replace_listeners(&bench.envoy, &[main]).await?.accepted()?;
    if lab.version < FIRST_WITH_MATCHERS {
        // The former listener drains, so weaker evidence does not count for a while.
        return bench.until("count", "partial").await.map(drop);
    }
    // While a stream holds, Envoy's count decides nothing, and the gate does not ask for it.
    bench.until("count", "exact").await?;
    let client = bench.held("a").await?;
    holds_until_answered(&bench, "a", client).await?;
    same(&bench.status().await?, "count", "exact")
}
