//! F8: `laststream deletion-cost` on a real API server: the rights that it needs, the example
//! manifest, and the annotations, which `--clear` removes.

use super::operator::{self, laststream, pod};
use super::world::World;
use kit::prelude::*;

/// As in the example manifest.
const NAMESPACE: &str = "shop";
const NODE: &str = "scaled-node";
const ONCE: [&str; 2] = ["deletion-cost", "--once"];

pub(crate) async fn case() -> Outcome {
    let world = World::get().await?;
    operator::place(world, NAMESPACE, NODE, "10.244.251.0/24").await?;
    let mut web = pod(NAMESPACE, NODE, "web", &json!({}));
    web["metadata"]["ownerReferences"] =
        json!([{ "apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": "r" }]);
    world.cluster.apply_all(&[web]).await?;
    operator::serve(world, NAMESPACE).await?;
    operator::grant(world, Some(NAMESPACE), &["laststream-reader"]).await?;
    let refused = async || {
        let output = laststream(world, NAMESPACE, &ONCE).await?.expect(2)?;
        let output = output.stderr_contains("no right to `patch` `pods`")?;
        output.stderr_contains("`laststream-actor`").map(drop)
    };
    wait_for(PATIENCE, "the missing right", refused).await?;
    operator::grant(world, Some(NAMESPACE), &["laststream-actor"]).await?;
    operator::succeeds(world, NAMESPACE, &ONCE).await?;
    let [cost, mark] = annotations(world).await?;
    ensure!(cost.is_some() && cost == mark, "the cost {cost:?}, marked {mark:?}");
    let output = laststream(world, NAMESPACE, &ONCE).await?.expect(0)?;
    output.stderr_contains("nothing to write")?;
    let example = kit::workspace().join("envoyfilter-manifests/rights/deletion-cost.yaml");
    let example = example.to_str().context("a path")?.to_owned();
    let strict = ["apply", "--validate=strict", "--dry-run=server", "--filename", &example];
    world.cluster.run(&strict).await?;
    laststream(world, NAMESPACE, &["deletion-cost", "--clear"]).await?.expect(0)?;
    ensure_eq!(annotations(world).await?, [None, None], "after `--clear`");
    Ok(())
}

/// The pod's cost, and the mark of this program.
async fn annotations(world: &World) -> Outcome<[Option<String>; 2]> {
    let web = world.cluster.get(NAMESPACE, "pod/web").await?;
    let names = ["controller.kubernetes.io/pod-deletion-cost", "laststream.io/deletion-cost"];
    Ok(names.map(|name| web["metadata"]["annotations"][name].as_str().map(str::to_owned)))
}
