//! M4: failures on the module's way to the proxy, and mistakes in the resource. Requests pass, as
//! the rendered failure policy demands, and no drain ends by mistake. `lint` finds beforehand every
//! mistake that is visible in the files.

use tokio::net::TcpSocket;

use super::stage::{BEGUN, LONGER_THAN_QUIET, Stage, WITNESS};
use super::world::registry_with_module;
use crate::agent::{Agent, Proxy};
use crate::seen::row;
use kit::prelude::*;
use kit::registry::real::Registry;
use kit::registry::sha256;
use kit::wire::local;

/// The first line of the part of the rendered resource that is about the gate's module.
const GATE_PART: &str = "# The module for the gate.";

/// The registry is unreachable when the proxy starts.
pub(super) async fn no_registry_at_start() -> Outcome {
    let stage = Stage::new("m4-start").await?;
    let port = Reserved::new()?;
    let (registry, policy) = own_registry(&stage, "", &port)?;
    let name = registry.name();
    stage.apply(&stage.gateway_objects()?).await?;
    stage.put(&policy).await?;
    drop(registry);
    // `render` fails while the registry is unreachable.
    let file = stage.user.argument("late.yaml", &policy)?;
    stage.laststream(&["render", "envoyfilter", "--policy", &file], "")?.expect(2)?;
    let agent = fetching_from(&stage, &name).await?;
    agent.program.wait_for_log("cannot fetch Wasm module").await?;
    shut(&stage).await?;
    uncounted(&stage, &agent).await?;
    let (_registry, policy) =
        own_registry(&stage, "drain: {deadline: 20s}\ncount: {long_lived: {grpc: true}}\n", &port)?;
    stage.put(&policy).await?;
    stage.status_with("count", "exact").await?;
    row(
        "M4",
        "registry away at the start",
        "requests 200, uncounted; the gate answers 403 to a hook, so nothing is drained; exact \
            with the next change after it is back",
    );
    stage.nothing_refused()
}

/// The registry is unreachable when the module changes.
pub(super) async fn no_registry_at_update() -> Outcome {
    let stage = Stage::new("m4-update").await?;
    let port = Reserved::new()?;
    let (registry, policy) = own_registry(&stage, "", &port)?;
    stage.apply(&stage.gateway_objects()?).await?;
    let rendered = stage.put(&policy).await?;
    let agent = fetching_from(&stage, &registry.name()).await?;
    stage.answers(200).await?;
    stage.status_with("count", "exact").await?;
    drop(registry);
    // A digest that no agent has in its cache.
    let digest = digest_in(&rendered)?;
    stage.world.cluster.apply(&rendered.replace(&digest, &unknown(&digest))).await?;
    agent.program.wait_for_log("cannot fetch Wasm module").await?;
    shut(&stage).await?;
    uncounted(&stage, &agent).await?;
    let (_registry, _) = own_registry(&stage, "", &port)?;
    stage.world.cluster.apply(&rendered).await?;
    stage.status_with("count", "exact").await?;
    row(
        "M4",
        "registry away at an update",
        "requests 200, uncounted; the gate 403; exact again with the former digest",
    );
    stage.nothing_refused()
}

/// The agent cannot fetch the counter's module, but has the gate's: the gate must not mistake
/// silence for zero.
pub(super) async fn wrong_checksums() -> Outcome {
    let stage = Stage::new("m4-checksums").await?;
    stage.apply(&stage.gateway_objects()?).await?;
    let policy = stage.gateway_policy("drain: {longest_request: 600s, finish: nothing}\n");
    let rendered = stage.put(&policy).await?;
    let agent = stage.gateway(&[WITNESS]).await?;
    stage.answers(200).await?;
    stage.status_with("count", "exact").await?;
    let digest = digest_in(&rendered)?;
    let (counter, gate) = rendered.split_once(GATE_PART).context("no part of the gate")?;

    let nowhere = format!("{}{GATE_PART}{gate}", counter.replace(&digest, &unknown(&digest)));
    stage.world.cluster.apply(&nowhere).await?;
    agent.program.wait_for_log("cannot fetch Wasm module").await?;
    stage.status_with("count", "unknown").await?;
    uncounted(&stage, &agent).await?;
    stage.world.cluster.apply(&rendered).await?;
    stage.status_with("count", "exact").await?;
    row(
        "M4",
        "a digest that the registry does not have, for the counter",
        "requests 200, uncounted; the gate: `unknown`; exact with the right one",
    );

    let module = sha256(laststream_module::builtin().map_err(Error::msg)?);
    let checksum = module.trim_start_matches("sha256:");
    // Quotes are there only around digests that YAML would take for a number.
    let written = [format!("sha256: \"{digest}\""), format!("sha256: {digest}")];
    let counter = written.iter().fold(counter.to_owned(), |text, right| {
        text.replace(right, &format!("sha256: \"{checksum}\""))
    });
    let wrong = format!("{counter}{GATE_PART}{gate}");
    ensure!(wrong != rendered, "nothing was replaced");
    let found = lint(&stage, &wrong)?;
    ensure!(found.contains("LS204"), "lint: {found}");
    stage.world.cluster.apply(&wrong).await?;
    agent.program.wait_for_log("which does not match").await?;
    stage.status_with("count", "unknown").await?;
    uncounted(&stage, &agent).await?;
    let held = stage.held(1).await?;
    stage.held_drain(LONGER_THAN_QUIET).await?;
    stage.answered(held).await?;
    stage.status_with("state", "drained").await?;
    row(
        "M4",
        "the module's checksum instead of the manifest's",
        "LS204 beforehand; “which does not match”, requests 200, the gate: `unknown`; an uncounted \
            request holds the drain by Envoy's own count, and gets 200",
    );
    stage.nothing_refused()
}

/// The same resource under another name.
pub(super) async fn two_of_one_name() -> Outcome {
    let stage = Stage::new("m4-twins").await?;
    stage.apply(&stage.gateway_objects()?).await?;
    let rendered = stage.put(&stage.gateway_policy("")).await?;
    let _agent = stage.gateway(&[WITNESS]).await?;
    stage.answers(200).await?;
    stage.status_with("count", "exact").await?;
    let twin = rendered.replacen("name: laststream\n", "name: twin\n", 1);
    let found = lint(&stage, &format!("{rendered}\n---\n{twin}"))?;
    ensure!(found.contains("LS121") && found.contains("LS121"), "lint: {found}");
    stage.world.cluster.apply(&twin).await?;
    let refusal = stage.refusal().await?;
    ensure!(refusal.to_lowercase().contains("duplicate"), "{refusal}");
    stage.get("/").await?.expect(200)?;
    stage.status_with("count", "exact").await?;
    stage.world.cluster.run(&["delete", "envoyfilter", "--namespace", stage.name, "twin"]).await?;
    stage.get("/").await?.expect(200)?;
    stage.status_with("count", "exact").await?;
    row(
        "M4",
        "two EnvoyFilters with the same names inside",
        "LS121 and LS121 beforehand; Envoy refuses the update (“duplicate”) and goes on with what \
            it had: requests 200, exact",
    );
    Ok(())
}

/// A reserved port of the loopback interface: bound, but with SO_REUSEADDR, so that a registry can
/// bind it as well. Without it the system could give the port to any connection while no registry
/// runs.
struct Reserved(TcpSocket);

impl Reserved {
    fn new() -> Outcome<Self> {
        let socket = TcpSocket::new_v4()?;
        socket.set_reuseaddr(true)?;
        socket.bind(local(0))?;
        Ok(Self(socket))
    }

    fn port(&self) -> Outcome<u16> {
        Ok(self.0.local_addr()?.port())
    }
}

/// Waits until requests pass that no filter counts. The agent's log line comes before Envoy has the
/// change, so the first requests may still be counted.
async fn uncounted(stage: &Stage, agent: &Agent) -> Outcome {
    wait_for(PATIENCE, "uncounted requests", async || {
        let before = agent.stat(BEGUN).await?;
        stage.answers(200).await?;
        stage.get("/").await?.expect(200)?;
        ensure_eq!(agent.stat(BEGUN).await?, before, "begun");
        Ok(())
    })
    .await
}

/// Starts a registry with the module in it, and returns it with a policy that names it.
fn own_registry(stage: &Stage, more: &str, port: &Reserved) -> Outcome<(Registry, String)> {
    let (registry, module, _) = registry_with_module(port.port()?)?;
    let policy = stage.gateway_policy(more).replace(&stage.world.module, &module);
    Ok((registry, policy))
}

/// A proxy whose agent asks this registry of the case without TLS.
async fn fetching_from(stage: &Stage, registry: &str) -> Outcome<Agent> {
    let (labels, annotations) = (&[("istio", stage.name)], &[WITNESS]);
    stage.proxy(&Proxy { labels, annotations, registry, ..Proxy::default() }).await
}

/// A digest that no registry has.
fn unknown(digest: &str) -> String {
    digest.chars().rev().collect()
}

/// The first digest in a rendered resource: 64 digits.
fn digest_in(rendered: &str) -> Outcome<String> {
    rendered
        .split("@sha256:")
        .nth(1)
        .and_then(|rest| rest.get(..64))
        .map(String::from)
        .context("no digest")
}

/// Waits until the gate without its module refuses every request, so that none of its answers lets
/// a proxy stop. The old gate, which Envoy keeps for a moment, still answers; the path with `wait`
/// comes last, so that no wait begins there.
async fn shut(stage: &Stage) -> Outcome {
    for path in ["/ready", "/status", "/prestop?wait=1s"] {
        let refused = async || stage.ask_gate(Request::get(path), 403).await.map(drop);
        wait_for(PATIENCE, "a gate without its module", refused).await?;
    }
    Ok(())
}

/// The findings of `lint` in a file, which must have some.
fn lint(stage: &Stage, text: &str) -> Outcome<String> {
    let file = stage.user.argument("wrong.yaml", text)?;
    Ok(stage.laststream(&["lint", &file], "")?.expect(1)?.stdout)
}
