//! The Envoy that the load runs against: clusters, routes and listeners that the operations use.

use serde_json::json;

use super::Targets;
use crate::Outcome;
use crate::bootstrap::{Bootstrap, Hcm, Listener, Route, cluster};
use crate::certificates::Authority;
use crate::envoy::Envoy;
use crate::upstream::Upstream;

const LISTENER: &str = "load";
const QUIC_LISTENER: &str = "load-quic";

/// Adds the routes that the operations request; the caller adds the filters. Every other path gets
/// 404.
pub fn routes(hcm: Hcm) -> Hcm {
    let rewritten = |prefix: &str, to: &str, cluster: &str| {
        Route::prefix(prefix).cluster(cluster).with("/route/prefix_rewrite", json!(to))
    };
    hcm.upgrades()
        .with("/max_request_headers_kb", json!(16))
        .with("/stream_idle_timeout", json!("30s"))
        // otherwise each operation whose connection Envoy closes takes a second
        .with("/delayed_close_timeout", json!("0.1s"))
        .route(Route::connect("load-tcp"))
        .route(Route::prefix("/direct").direct(200, "direct"))
        .route(Route::prefix("/to-https").with("/redirect", json!({ "https_redirect": true })))
        .route(rewritten("/refused/", "/", "load-refused"))
        .route(rewritten("/slow/", "/delay/", "load-h1").timeout("0.05s"))
        .route(rewritten("/retried/", "/flaky/", "load-h1").retry("5xx", 2))
        .route(rewritten("/followed/", "/redirect/", "load-h1").follow_redirects())
        .route(rewritten("/up/", "/", "load-h1").timeout("0s"))
        .route(rewritten("/up2/", "/", "load-h2").timeout("0s"))
        .route(rewritten("/lost2/", "/", "load-h2-lost"))
}

/// The clusters, a TCP listener (HTTP/1 and HTTP/2) and a QUIC listener.
pub fn bootstrap(
    upstream: &Upstream,
    tcp: Hcm,
    quic: Hcm,
    authority: &Authority,
) -> Outcome<Bootstrap> {
    Ok(Bootstrap::new()
        .cluster(cluster::h1("load-h1", upstream.h1()))
        .cluster(cluster::h2("load-h2", upstream.h2()))
        .cluster(cluster::h2("load-h2-lost", upstream.h2()))
        .cluster(cluster::h1("load-tcp", upstream.tcp()))
        .cluster(cluster::h1("load-refused", upstream.refused()))
        .listener(Listener::new(LISTENER, tcp))
        .listener(Listener::quic(QUIC_LISTENER, quic, &authority.server()?)))
}

pub async fn targets(envoy: &Envoy, authority: &Authority) -> Outcome<Targets> {
    let (tcp, quic) = (envoy.address(LISTENER).await?, envoy.address(QUIC_LISTENER).await?);
    Ok(Targets { tcp, quic, tls: authority.client_config(&["h3"], None)? })
}
