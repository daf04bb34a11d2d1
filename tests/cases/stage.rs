//! The usual set-up of a case: an upstream, an Envoy with the module in front of it, and its
//! counters.

use crate::lab::Lab;
use kit::prelude::*;
use kit::xds::Xds;

/// The limit of a wait: long enough for a busy machine, and shorter than a gate's usual deadline of
/// 90 s, so that a gate that opens only at its deadline fails its case.
pub(crate) const SOON: Duration = Duration::from_secs(80);
pub(crate) const IN_FLIGHT: &str = "wasmcustom.laststream_streams_in_flight_gateway";
pub(crate) const LONG_LIVED: &str = "wasmcustom.laststream_streams_long_lived_gateway";
pub(crate) const BEGUN: &str = "wasmcustom.laststream_streams_begun_gateway_total";
pub(crate) const EXCLUDED: &str = "wasmcustom.laststream_streams_excluded_gateway_total";
pub(crate) const ACTIVE: &str = "http.main.downstream_rq_active";

pub(crate) struct Stage {
    pub(crate) upstream: Upstream,
    pub(crate) envoy: Envoy,
    pub(crate) main: SocketAddr,
}

impl Stage {
    /// One listener `main` with this configuration of the module. All routes lead to the upstream.
    pub(crate) async fn set(lab: &Lab, configuration: &str) -> Outcome<Self> {
        Self::with(lab, hcm(lab, configuration)).await
    }

    /// [`Stage::set`] with a connection manager of the case's own.
    pub(crate) async fn with(lab: &Lab, hcm: Hcm) -> Outcome<Self> {
        let upstream = Upstream::start().await?;
        let bootstrap = clusters(Bootstrap::new(), &upstream).listener(Listener::new("main", hcm));
        let envoy = Envoy::start(&lab.envoy, bootstrap.build(), Options::default()).await?;
        let main = envoy.address("main").await?;
        Ok(Self { upstream, envoy, main })
    }

    /// The module's count and Envoy's own count, from one reading.
    pub(crate) async fn counts(&self) -> Outcome<(u64, u64)> {
        counts(&self.envoy).await
    }

    /// Each of 50 readings in a row must equal `expected`, in both counts.
    pub(crate) async fn always_counts(&self, expected: u64) -> Outcome {
        for look in 0..50 {
            ensure_eq!(
                self.counts().await?,
                (expected, expected),
                "in flight, by the module and by Envoy, at look {look}"
            );
        }
        Ok(())
    }

    pub(crate) async fn wait_until_idle(&self) -> Outcome {
        self.envoy.wait_for_stat(ACTIVE, 0, SOON).await?;
        self.envoy.wait_for_stat(IN_FLIGHT, 0, SOON).await
    }
}

pub(crate) fn no_vm_has_died(envoy: &Envoy) -> Outcome {
    for trouble in ["panicked", "Wasm VM failed", "Function: proxy_on"] {
        ensure!(!envoy.log_contains(trouble), "the log has `{trouble}`: {}", envoy.tail());
    }
    Ok(())
}

pub(crate) async fn counts(envoy: &Envoy) -> Outcome<(u64, u64)> {
    let stats = envoy.stats().await?;
    let value = |name: &str| stats.get(name).copied().unwrap_or(u64::MAX);
    Ok((value(IN_FLIGHT), value(ACTIVE)))
}

/// The connection manager `main` with the module, routed to the upstream: `/h2…` over HTTP/2, the
/// rest over HTTP/1.
pub(crate) fn hcm(lab: &Lab, configuration: &str) -> Hcm {
    routes(Hcm::new("main").filter(lab.stream(configuration).filter()))
}

/// The same connection manager, with the filter `laststream` from discovery.
pub(crate) fn discovered(xds: &Xds) -> Hcm {
    routes(Hcm::new("main").filter(filters::discovered("laststream", xds)))
}

/// The configuration of a filter that lets every request pass, for [`discovered`].
pub(crate) fn allow_all() -> Value {
    json!({ "@type": "type.googleapis.com/envoy.extensions.filters.http.rbac.v3.RBAC" })
}

pub(crate) fn routes(hcm: Hcm) -> Hcm {
    hcm.upgrades()
        .route(Route::connect("tunnel"))
        .route(Route::prefix("/grpc").cluster("app-h2").timeout("0s").name("streaming"))
        .route(Route::prefix("/").cluster("app").timeout("0s").name("rest"))
}

pub(crate) fn clusters(bootstrap: Bootstrap, upstream: &Upstream) -> Bootstrap {
    bootstrap
        .cluster(cluster::h1("app", upstream.h1()))
        .cluster(cluster::h2("app-h2", upstream.h2()))
        .cluster(cluster::h1("tunnel", upstream.tcp()))
}
