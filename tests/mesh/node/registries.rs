//! V3: registries that want a password. A gateway whose agent has it, as docs/delivery.md says, one
//! whose agent has none, and one whose registry asks in a way that Istio's agent refuses.

use super::machine::ADDRESS;
use super::volumes::{counts, refuses};
use super::workload::{Workload, routes};
use super::world::World;
use crate::parts::part;
use crate::program::ask;
use crate::seen::row;
use kit::prelude::*;
use kit::process::guarded;
use kit::registry::real::{PASSWORD, Registry, Settings, USERNAME};

const NAMESPACE: &str = "registries";
/// Istio's agent refuses a realm that is no public address.
const REALM: &str = "https://registry.example.com";

pub(crate) async fn case() -> Outcome {
    let (world, _turn) = World::shared().await?;
    world.cluster.injected_namespace(NAMESPACE).await?;
    let way = routes(NAMESPACE, "known", &[("known.test", "backend.default")]);
    world.cluster.apply_all(&way).await?;
    let private = Private::start(world, REALM)?;
    let refused = Private::start(world, "Registry")?;
    let known = private.gateway("known", private.documented(world).await?);
    let unknown = private.gateway("unknown", json!({}));
    let odd = refused.gateway("odd", refused.documented(world).await?);
    for gateway in [&known, &unknown, &odd] {
        gateway.create(world).await?;
    }
    counts(world, &known).await?;
    refuses(world, &unknown).await?;
    refuses(world, &odd).await?;
    let pod = odd.pod(world).await?.name;
    let logs = world.cluster.run(&["logs", "--namespace", NAMESPACE, &pod]).await?;
    ensure!(logs.contains("rejected unsafe bearer realm"), "{logs}");
    row("V3", "a private registry, the Secret and the values of docs/delivery.md", "count exact");
    row("V3", "the same registry without them", "the gate answers 403, requests pass uncounted");
    row("V3", "a registry with `Basic realm=\"Registry\"`, with both", "Istio's agent refuses it");
    Ok(())
}

/// A registry that wants a password, with the module in it.
struct Private {
    registry: Registry,
    module: String,
}

impl Private {
    fn start(world: &World, realm: &'static str) -> Outcome<Self> {
        let settings =
            Settings { address: Some(ADDRESS), realm: Some(realm), ..Settings::default() };
        let registry = Registry::start(&settings)?;
        let image = format!("{}/mesh/laststream:1", host(&registry));
        let credentials = ["--username", USERNAME, "--password-stdin"];
        let push = [&["push", "--plain-http", "-o", "json", &image], &credentials[..]].concat();
        let pushed = world.user.run(&push, PASSWORD)?.expect(0)?.json_lines()?;
        let digest = pushed.iter().find_map(|line| line["digest"].as_str()).context("a digest")?;
        Ok(Self { registry, module: format!("oci://{image}@{digest}") })
    }

    fn gateway(&self, name: &'static str, values: Value) -> Workload<'static> {
        let module = Some(self.module.clone());
        Workload { module, values, ..Workload::gateway(NAMESPACE, name) }
    }

    /// Runs the page's commands for this registry, and returns the values that they write.
    async fn documented(&self, world: &World) -> Outcome<Value> {
        let page = std::fs::read_to_string(kit::workspace().join("docs/delivery.md"))?;
        let (_, section) =
            page.split_once("\n### Private registries").context("no such section")?;
        let (_, block) = section.split_once("```sh\n").context("no commands")?;
        let (commands, _) = block.split_once("```").context("no end of the commands")?;
        let secret = format!("registry-{}", self.registry.port());
        let script = commands
            .replace("docker-registry registry", &format!("docker-registry {secret}"))
            .replace("secretName: registry", &format!("secretName: {secret}"))
            .replace("istio-ingress", NAMESPACE)
            .replace("registry.example.com", &host(&self.registry))
            .replace("USER", USERNAME)
            .replace("PASSWORD", PASSWORD);
        let mut shell = guarded("sh");
        shell.args(["-e", "-c", &format!("kubectl() {{ \"$KUBECTL\" \"$@\"; }}\n{script}")]);
        shell.env("KUBECTL", part("mesh-kubectl")?).env("KUBECONFIG", world.cluster.kubeconfig());
        shell.current_dir(world.user.path(""));
        ask(shell, "").await?.expect(0)?;
        let values = std::fs::read_to_string(world.user.path("registry.yaml"))?;
        Ok(serde_saphyr::from_str(&values)?)
    }
}

fn host(registry: &Registry) -> String {
    format!("{ADDRESS}:{}", registry.port())
}
