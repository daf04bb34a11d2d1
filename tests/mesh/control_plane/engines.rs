//! M8: the engine that restores `x-forwarded-proto`, by the version of the proxy. Each proxy is the
//! same program; only the version that its agent reports differs.

use super::load::Load;
use super::stage::Stage;
use crate::agent::{Agent, Proxy};
use crate::release::Release;
use crate::seen::row;
use kit::prelude::*;

const TRUSTING: &str = "forwarded_proto: {presets: [aws_alb], trust: {peers: [127.0.0.0/8]}}\n";
const PROTO: &str = "x-forwarded-proto";
const LEAST_REQUESTS: usize = 500;

/// The versions that agents report, and whether Envoy's own matchers are to decide.
const VERSIONS: [(&str, bool); 5] = [
    ("1.30.4", false),
    ("1.31.0", true),
    ("1.32-dev", true),
    ("1.31.1-asm.2", true),
    ("of a vendor", false),
];

pub(super) async fn by_version() -> Outcome {
    let stage = Stage::new("m8-versions").await?;
    stage.apply(&stage.gateway_objects()?).await?;
    stage.put(&stage.gateway_policy(TRUSTING)).await?;
    // The Envoy of an older Istio ignores the matcher of the composite filter.
    let has_matcher = Release::chosen()? >= Release::Istio1_31;
    let versions: Vec<_> =
        VERSIONS.into_iter().filter(|(_, is_newer)| has_matcher || !is_newer).collect();
    for &(version, is_newer) in &versions {
        let agent = of_version(&stage, version).await?;
        wait_for(PATIENCE, version, async || {
            restores(&stage).await?;
            ensure_eq!(engines(&agent).await?, [!is_newer, is_newer], "module and matchers");
            Ok(())
        })
        .await?;
        agent.stop().await?;
    }
    stage.nothing_refused()?;
    let versions = versions.iter().map(|(version, _)| *version).collect::<Vec<_>>().join(", ");
    row(
        "M8",
        format!("one EnvoyFilter, proxies that report the versions {versions}"),
        "https is restored by each; the module does it up to 1.30 and for an unknown version, \
            Envoy's composite filter from 1.31 on, never both",
    );
    Ok(())
}

pub(super) async fn changed_under_load() -> Outcome {
    let what = "from the module to the composite filter and back, under load";
    if Release::chosen()? < Release::Istio1_31 {
        row("M8", what, "its Envoy has no matcher there");
        return Ok(());
    }
    let stage = Stage::new("m8-change").await?;
    let by_module = stage.gateway_policy(&format!("{TRUSTING}engine: wasm\n"));
    let by_version = stage.gateway_policy(TRUSTING);
    stage.apply(&stage.gateway_objects()?).await?;
    stage.put(&by_module).await?;
    let agent = of_version(&stage, "1.31.0").await?;
    restores(&stage).await?;
    stage.upstream.forget();
    let load = Load::start(stage.address(), &request("/delay/5"));
    for (policy, expected) in [(&by_version, [false, true]), (&by_module, [true, false])] {
        let before = stage.upstream.requests();
        stage.put(policy).await?;
        wait_for(PATIENCE, "the other engine", async || {
            ensure_eq!(engines(&agent).await?, expected, "module and matchers");
            ensure!(stage.upstream.requests() > before + LEAST_REQUESTS / 2, "no more requests");
            Ok(())
        })
        .await?;
    }
    load.end().await?;
    let received = stage.upstream.received();
    let is_https =
        |request: &kit::upstream::Received| request.header(PROTO) == Some("https".into());
    let lost = received.iter().filter(|request| !is_https(request)).count();
    ensure_eq!(lost, 0, "requests that lost https, of {}", received.len());
    ensure!(received.len() >= LEAST_REQUESTS, "only {} requests", received.len());
    stage.nothing_refused()?;
    row(
        "M8",
        what,
        format!("{} requests, on old and new connections, all of them https", received.len()),
    );
    Ok(())
}

/// The gateway's proxy, whose agent reports this version.
async fn of_version(stage: &Stage, version: &str) -> Outcome<Agent> {
    let labels = &[("istio", stage.name)];
    let variables = &[("ISTIO_META_ISTIO_VERSION", version)];
    let agent = stage.proxy(&Proxy { labels, variables, ..Proxy::default() }).await?;
    stage.answers(200).await?;
    Ok(agent)
}

/// A request whose headers say that its client came over https.
fn request(path: &str) -> Request {
    Request::get(path).header(PROTO, "https").header("x-forwarded-port", "443")
}

/// Envoy writes http, and the engine https.
async fn restores(stage: &Stage) -> Outcome {
    once(stage.address(), &request("/")).await?.expect(200)?;
    ensure_eq!(stage.upstream.last()?.header(PROTO), Some("https".into()), "{PROTO}");
    let forged = Request::get("/").header("x-laststream-forwarded-proto", "https");
    once(stage.address(), &forged).await?.expect(200)?;
    ensure_eq!(stage.upstream.last()?.header(PROTO), Some("http".into()), "{PROTO}, forged");
    Ok(())
}

/// Whether the module restores the header, and whether the composite filter does, by the active
/// listeners.
async fn engines(agent: &Agent) -> Outcome<[bool; 2]> {
    let active = agent.active_listeners().await?;
    // Only the module needs the filter that writes the peer.
    Ok([active.contains("laststream.direct_peer"), active.contains("composite.v3.Composite")])
}
