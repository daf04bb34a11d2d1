//! Configuration replaced at run time, and the admin interface as a cluster.

use crate::cases::stage::SOON;
use crate::lab::Lab;
use kit::admin_cluster::admin_cluster;
use kit::prelude::*;
use kit::xds::{Verdict, Xds};

const RBAC: &str = "type.googleapis.com/envoy.extensions.filters.http.rbac.v3.RBAC";

pub(super) async fn replaces_listeners(lab: &Lab) -> Outcome {
    let xds = Xds::new()?;
    let listener = |name: &str, status: u16| {
        Listener::new(name, Hcm::new(name).route(Route::prefix("/").direct(status, "")))
    };
    xds.write_listeners(&[listener("one", 200)])?;
    let envoy =
        Envoy::start(&lab.envoy, Bootstrap::new().listeners_from(&xds).build(), Options::default())
            .await?;
    once(envoy.address("one").await?, &Request::get("/")).await?.expect(200)?;
    xds.replace_listeners(&envoy, &[listener("one", 200), listener("two", 201)])
        .await?
        .accepted()?;
    once(envoy.address("two").await?, &Request::get("/")).await?.expect(201)?;
    let broken = listener("two", 202).with("/filter_chains/0/filters/0/name", json!(""));
    ensure_eq!(
        xds.replace_listeners(&envoy, &[broken]).await?,
        Verdict::Rejected,
        "a broken listener"
    );
    xds.replace_listeners(&envoy, &[]).await?.accepted()?;
    envoy.wait_for_stat("listener_manager.total_listeners_active", 0, SOON).await
}

pub(super) async fn replaces_filters(lab: &Lab) -> Outcome {
    let xds = Xds::new()?;
    xds.write_filter("gatekeeper", &json!({ "@type": RBAC }))?;
    let hcm = Hcm::new("main")
        .filter(filters::discovered("gatekeeper", &xds))
        .route(Route::prefix("/").direct(200, "through"));
    let envoy = Envoy::start(
        &lab.envoy,
        Bootstrap::new().listener(Listener::new("main", hcm)).build(),
        Options::default(),
    )
    .await?;
    let mut client = Client::connect(envoy.address("main").await?).await?;
    client.get("/").await?.expect(200)?;
    let deny_all = json!({ "@type": RBAC, "rules": { "action": "ALLOW", "policies": {} } });
    xds.replace_filter(&envoy, "gatekeeper", &deny_all).await?.accepted()?;
    client.get("/").await?.expect(403)?;
    let broken = json!({ "@type": RBAC, "rules": { "action": 99 } });
    ensure_eq!(
        xds.replace_filter(&envoy, "gatekeeper", &broken).await?,
        Verdict::Rejected,
        "a broken configuration"
    );
    client.get("/").await?.expect(403)?;
    xds.replace_filter(&envoy, "gatekeeper", &json!({ "@type": RBAC })).await?.accepted()?;
    client.get("/").await?.expect(200)?;
    Ok(())
}

pub(super) async fn reaches_admin_through_a_cluster(lab: &Lab) -> Outcome {
    let hcm = Hcm::new("front").route(Route::prefix("/").cluster("admin"));
    let config = Bootstrap::new()
        .cluster(admin_cluster("admin"))
        .listener(Listener::new("front", hcm))
        .build();
    let envoy =
        Envoy::start(&lab.envoy, config, Options { concurrency: 1, ..Options::default() }).await?;
    let ready = once(envoy.address("front").await?, &Request::get("/ready")).await?.expect(200)?;
    ensure_eq!(ready.text().trim(), "LIVE", "/ready through the listener");
    Ok(())
}
