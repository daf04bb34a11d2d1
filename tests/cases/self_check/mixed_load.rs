//! The mixed load against a plain Envoy: nothing stays open, every operation ends as it should.

use crate::lab::{Lab, number};
use kit::certificates::Authority;
use kit::load::{self, bed};
use kit::prelude::*;

const SOON: Duration = Duration::from_secs(30);
const OPERATIONS: usize = 2_000;
const PARALLEL: usize = 32;

/// Counters of Envoy that prove that the operations had the effects that they claim.
const PROOFS: &[&str] = &[
    "http.load.downstream_cx_protocol_error",
    "http.load.downstream_cx_destroy_remote_active_rq",
    "http.load.downstream_cx_http1_total",
    "http.load.downstream_cx_http2_total",
    "http.load.downstream_cx_upgrades_total",
    "http.load.downstream_rq_rx_reset",
    "http.load.no_route",
    "http.load3.downstream_cx_http3_total",
    "http.load3.downstream_rq_rx_reset",
    "cluster.load-h1.upstream_internal_redirect_succeeded_total",
    "cluster.load-h1.upstream_rq_retry_success",
    "cluster.load-h1.upstream_cx_destroy_remote_with_active_rq",
    "cluster.load-h1.upstream_cx_protocol_error",
    "cluster.load-h2.upstream_rq_rx_reset",
    "cluster.load-h1.upstream_rq_timeout",
    "cluster.load-h2.upstream_rq_tx_reset",
    "cluster.load-refused.upstream_cx_connect_fail",
];

/// `LASTSTREAM_LOAD=20000` runs the long load; `LASTSTREAM_LOAD_REPORT=<file>` writes the report.
pub(super) async fn leaves_nothing_open(lab: &Lab) -> Outcome {
    let operations = number("LASTSTREAM_LOAD", OPERATIONS)?;
    let (upstream, authority) = (Upstream::start().await?, Authority::new()?);
    let hcm = |prefix: &str| bed::routes(Hcm::new(prefix));
    let config = bed::bootstrap(&upstream, hcm("load"), hcm("load3"), &authority)?.build();
    let mut envoy = Envoy::start(&lab.envoy, config, Options::default()).await?;
    let report = load::run(operations, PARALLEL, 7, bed::targets(&envoy, &authority).await?).await;
    report.check()?;
    upstream.wait_held("for-ever", 0, SOON).await?;
    for prefix in ["load", "load3"] {
        envoy.wait_for_stat(&format!("http.{prefix}.downstream_rq_active"), 0, SOON).await?;
    }
    let stats = envoy.stats().await?;
    let unproven: Vec<_> =
        PROOFS.iter().filter(|name| stats.get(**name).is_none_or(|count| *count == 0)).collect();
    ensure!(unproven.is_empty(), "still 0: {unproven:?}");
    let total = |prefix: &str| {
        stats.get(&format!("http.{prefix}.downstream_rq_total")).copied().unwrap_or(0)
    };
    let seen = total("load") + total("load3");
    ensure!(report.operations == operations as u64, "{report}");
    ensure!(
        seen >= report.requests && seen < report.requests * 3 / 2,
        "Envoy counted {seen} requests\n{report}"
    );
    ensure!(envoy.is_alive());
    if let Some(file) = std::env::var_os("LASTSTREAM_LOAD_REPORT") {
        std::fs::write(file, format!("{seen} streams at Envoy\n{report}"))?;
    }
    Ok(())
}
