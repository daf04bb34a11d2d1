//! M1: from a policy to a proxy that counts, by the commands that users type.

use super::stage::{Stage, metric};
use crate::agent::Agent;
use crate::seen::row;
use kit::admin::Admin;
use kit::prelude::*;
use kit::wire::free_port;

/// The warning of `istioctl` about every EnvoyFilter; README.md says why it remains.
const KNOWN_WARNING: &str = "EnvoyFilter exposes internal implementation details";

pub(super) async fn gateway() -> Outcome {
    let stage = Stage::new("m1-gateway").await?;
    let policy = stage
        .gateway_policy("forwarded_proto: {presets: [aws_alb], trust: {peers: [127.0.0.0/8]}}\n");
    let rendered = stage.render(&["envoyfilter"], &policy)?;
    stage.apply(&stage.gateway_objects()?).await?;
    accepted(&stage, "gateway", &rendered).await?;
    stage.put(&policy).await?;
    let agent = stage.gateway(&[]).await?;
    stage.answers(200).await?;
    counts_one(&stage, &agent, "gateway").await?;
    fetched_by_digest(&stage)?;
    stage.nothing_refused()
}

pub(super) async fn sidecar() -> Outcome {
    let stage = Stage::new("m1-sidecar").await?;
    let out = free_port()?;
    stage.apply(&stage.sidecar_objects(out)?).await?;
    let app = format!("drain: {{wait_for_app: {{cluster: \"inbound|{}||\"}}}}\n", stage.port);
    let policy = stage.sidecar_policy(&app);
    let rendered = stage.render(&["envoyfilter"], &policy)?;
    accepted(&stage, "sidecar", &rendered).await?;
    stage.put(&policy).await?;
    let agent = stage.sidecar().await?;
    stage.answers(200).await?;
    counts_one(&stage, &agent, "inbound").await?;
    let outbound = Stage { port: out, ..stage };
    outbound.answers(200).await?;
    counts_one(&outbound, &agent, "outbound").await?;
    outbound.nothing_refused()
}

/// Checks that the API server, `istioctl` and `lint` accept the manifests of this proxy.
async fn accepted(stage: &Stage, proxy: &str, rendered: &str) -> Outcome {
    let world = stage.world;
    let dry_run = ["apply", "--dry-run=server", "--validate=strict", "-f", "-"];
    world.cluster.kubectl_with(&dry_run, rendered).await?.expect(0)?;
    let file = &stage.user.argument("rendered.yaml", rendered)?;
    let validated = world.istio.istioctl(&["validate", "-f", file], "").await?.expect(0)?;
    let analyzed =
        world.istio.istioctl(&["analyze", "--namespace", stage.name, file], "").await?.expect(0)?;
    let said = [&validated.stderr, &analyzed.stdout]
        .map(|text| text.lines().filter(|line| line.contains("EnvoyFilter")));
    let unknown: Vec<&str> =
        said.into_iter().flatten().filter(|line| !line.contains(KNOWN_WARNING)).collect();
    ensure!(unknown.is_empty(), "istioctl: {unknown:#?}");
    let linted = stage.laststream(&["lint", file], "")?.expect(0)?;
    ensure!(linted.stdout.is_empty(), "lint: {}", linted.stdout);
    row(
        "M1",
        format!("{proxy}: strict dry run, `istioctl validate`, `analyze`, `laststream lint`"),
        "accepted by all; `istioctl` warns that it is an EnvoyFilter, no more; `lint` finds \
            nothing",
    );
    Ok(())
}

/// Checks that one request in flight is 1 in the gauge on both Prometheus ports, and that the gate
/// serves.
async fn counts_one(stage: &Stage, agent: &Agent, scope: &str) -> Outcome {
    let begun = format!("wasmcustom.laststream_streams_begun_{scope}_total");
    stage.counted_by_all(agent, &begun).await?;
    let gauge = format!("laststream_streams_in_flight_{scope}");
    let mut client = Client::connect(stage.address()).await?;
    client.send(&Request::get(&format!("/hold/{scope}")).bytes()).await?;
    stage.upstream.wait_held(scope, 1, PATIENCE).await?;
    for (name, address) in [("Envoy's", agent.prometheus()), ("the agent's", agent.agent())] {
        let read = async || {
            let text = Admin(address).get("/stats/prometheus").await?.expect(200)?.text();
            let seen = metric(&text, &gauge).with_context(|| format!("no {gauge}"))?;
            ensure_eq!(seen, 1, "{gauge} on {name} port");
            Ok(())
        };
        wait_for(PATIENCE, &gauge, read).await?;
    }
    // Istio's default set of statistics lacks Envoy's own count, so the count is `assumed`.
    let status = stage.status_with("count", "assumed").await?;
    ensure!(
        status["advice"].as_str().is_some_and(|advice| advice.contains("statsInclusionSuffixes")),
        "{status}"
    );
    ensure_eq!(status["state"], "serving", "{status}");
    stage.upstream.release(scope);
    client.response("GET").await?.expect(200)?;
    agent.wait_for_stat(&format!("wasmcustom.{gauge}"), 0).await?;
    row(
        "M1",
        format!("{scope}: one request in flight"),
        format!(
            "`{gauge}` 1 on both Prometheus ports, 0 after it; the gate: serving, assumed, with \
                the annotation as advice"
        ),
    );
    Ok(())
}

/// Checks that the agent has fetched the module of the EnvoyFilter, by its digest.
fn fetched_by_digest(stage: &Stage) -> Outcome {
    let wanted = format!("GET /v2/mesh/laststream/manifests/{}", stage.world.digest);
    let log = stage.world.registry.log();
    let fetch =
        log.lines().find(|line| line.contains(&wanted) && line.contains("go-containerregistry"));
    fetch.with_context(|| format!("the registry was not asked for {wanted}"))?;
    row(
        "M1",
        "who fetched the module",
        "Istio's agent, by the manifest's digest, from the registry that `laststream push` pushed \
            to",
    );
    Ok(())
}
