//! M5: a sidecar trusts the one gateway whose certificate, signed by istiod, has the trusted
//! identity.

use super::stage::Stage;
use crate::agent::Agent;
use crate::objects::{Given, objects};
use crate::seen::row;
use kit::prelude::*;

const HOST: &str = "app.m5.test";

pub(super) async fn by_certificate() -> Outcome {
    let (app, trusted, stranger) =
        (Stage::new("m5").await?, Stage::new("m5-front").await?, Stage::new("m5-stranger").await?);
    let policy = format!(
        "namespace: m5\nplacement: {{sidecar: {{selector: {{app: m5}}, directions: [inbound]}}}}\n\
         module: {}\ngate: {{port: {}}}\nforwarded_proto:\n  \
         trust: {{identities: [{{exact: spiffe://cluster.local/ns/m5-front/sa/m5-front}}]}}\n  \
         original_header: x-forwarded-proto\n  sources: [{{header: x-forwarded-proto}}]\n",
        app.world.module, app.gate
    );
    let given: &[Given<'_>] =
        &[("name", &app.name), ("port", &app.port), ("app", &app.upstream.h1().port())];
    app.apply(&objects(include_str!("objects/m5.yaml"), given)?).await?;
    app.put(&policy).await?;
    let sidecar = app.sidecar().await?;
    let given: &[Given<'_>] =
        &[("name", &app.name), ("port", &app.port), ("host", &HOST), ("address", &sidecar.address)];
    app.apply(&objects(include_str!("objects/m5_service.yaml"), given)?).await?;
    let _proxies = (gateway(&trusted).await?, gateway(&stranger).await?);
    // Both gateways send https, because each trusts its client.
    for proto in ["https", "http"] {
        wait_for(PATIENCE, "the scheme behind the trusted gateway", async || {
            ensure_eq!(seen(&app, &trusted, proto).await?, proto, "what the app sees");
            Ok(())
        })
        .await?;
    }
    let before = untrusted(&sidecar).await?;
    let through_stranger = seen(&app, &stranger, "https").await?;
    ensure!(untrusted(&sidecar).await? > before, "the stranger's certificate is trusted");
    ensure!(app.get("/").await.is_err(), "a strict sidecar answers without TLS");
    row(
        "M5",
        "sidecar in strict mTLS, trust by SPIFFE identity; two gateways that say https",
        format!(
            "the trusted one is believed (https and http); the other is not (the app sees \
                {through_stranger}, as the sidecar's own connection is)"
        ),
    );
    app.nothing_refused()?;
    trusted.nothing_refused()
}

async fn untrusted(sidecar: &Agent) -> Outcome<u64> {
    let name = "wasmcustom.laststream_forwarded_proto_untrusted_inbound_total";
    Ok(sidecar.stat(name).await?.unwrap_or(0))
}

/// The `x-forwarded-proto` that the app gets when a client of this gateway sends `proto`.
async fn seen(app: &Stage, gateway: &Stage, proto: &str) -> Outcome<String> {
    let request = Request::get("/echo").header("x-forwarded-proto", proto);
    wait_for(PATIENCE, "an answer through the mesh", async || {
        once(gateway.address(), &request).await?.expect(200).map(drop)
    })
    .await?;
    app.upstream.forget();
    once(gateway.address(), &request).await?.expect(200)?;
    Ok(app.upstream.last()?.header("x-forwarded-proto").unwrap_or_default())
}

/// A gateway with the filter, which trusts its clients.
async fn gateway(stage: &Stage) -> Outcome<Agent> {
    let mut objects = stage.gateway_objects()?;
    for object in objects.iter_mut().filter(|object| object["kind"] == "VirtualService") {
        object["spec"]["http"] =
            json!([{ "route": [{ "destination": { "host": HOST, "port": { "number": 80 } } }] }]);
    }
    stage.apply(&objects).await?;
    let trusting = "forwarded_proto: {presets: [gcp], trust: {peers: [127.0.0.0/8]}}\n";
    stage.put(&stage.gateway_policy(trusting)).await?;
    stage.gateway(&[]).await
}
