//! F8: `laststream deletion-cost --guard` on a real API server: the annotation that keeps Karpenter
//! away comes with a long stream, and goes with it, with its time, or with `--clear`. The gate of
//! all pods lists streams of 9 s.

use super::operator::{self, laststream, pod, succeeds};
use super::world::World;
use crate::seen::row;
use kit::prelude::*;

/// As in the example manifest.
const NAMESPACE: &str = "shop";
const NODE: &str = "guarded-node";
const GUARD: &str = "karpenter.sh/do-not-disrupt";
const MARK: &str = "laststream.io/guarded-since";
const ONCE: [&str; 2] = ["deletion-cost", "--once"];

pub(crate) async fn case() -> Outcome {
    let world = World::get().await?;
    operator::place(world, NAMESPACE, NODE, "10.244.251.0/24").await?;
    let pods = [("web", json!({})), ("own", json!({ GUARD: "true" }))]
        .map(|(name, annotations)| pod(NAMESPACE, NODE, name, &annotations));
    world.cluster.apply_all(&pods).await?;
    operator::serve(world, NAMESPACE).await?;
    rights(world).await?;
    let mut seen = Vec::new();
    for (arguments, is_guarded, is_marked) in [
        (&["--guard=1h"][..], false, false),
        (&["--guard=5s"], true, true),
        (&["--guard=5s"], true, true),
        (&["--guard=1h"], false, false),
        (&["--guard=5s"], true, true),
        (&["--guard=5s", "--guard-at-most=1s"], false, true),
        (&["--guard=5s"], false, true),
        (&["--guard=1h"], false, false),
        (&["--guard=5s"], true, true),
        (&["--clear"], false, false),
    ] {
        tokio::time::sleep(Duration::from_millis(1100)).await; // longer than the shortest guard
        let verb = if arguments[0] == "--clear" { &ONCE[..1] } else { &ONCE[..] };
        succeeds(world, NAMESPACE, &[verb, arguments].concat()).await?;
        let own = annotations(world, "own").await?;
        ensure_eq!(own, (Some("true".to_owned()), false), "an operator's own, {arguments:?}");
        let (guard, mark) = annotations(world, "web").await?;
        let wanted = (is_guarded.then(|| "true".to_owned()), is_marked);
        ensure_eq!((guard, mark), wanted, "{arguments:?}, after {seen:?}");
        let words = arguments.join(" ");
        seen.push(format!("{words}: {}", if is_guarded { "guarded" } else { "free" }));
    }
    row("F8", "a pod with streams of 9 s, and one that an operator guards", seen.join("; "));
    Ok(())
}

/// Without the right to write, the command names it. With the rights nothing is left to write.
async fn rights(world: &World) -> Outcome {
    operator::grant(world, Some(NAMESPACE), &["laststream-reader"]).await?;
    let guard = [&ONCE[..], &["--guard=5s"]].concat();
    let refused = async || {
        let said = laststream(world, NAMESPACE, &guard).await?.expect(2)?;
        let said = said.stderr_contains("no right to `patch` `pods`")?;
        said.stderr_contains("`laststream-actor`").map(drop)
    };
    wait_for(PATIENCE, "the missing right", refused).await?;
    operator::grant(world, Some(NAMESPACE), &["laststream-actor"]).await?;
    let written = async || {
        let said = laststream(world, NAMESPACE, &guard).await?.expect(0)?;
        said.stderr_contains("nothing to write").map(drop)
    };
    wait_for(PATIENCE, "a guard that is there", written).await?;
    let example = kit::workspace().join("envoyfilter-manifests/rights/deletion-cost.yaml");
    let example = example.to_str().context("a path")?.to_owned();
    let strict = ["apply", "--validate=strict", "--dry-run=server", "--filename", &example];
    world.cluster.run(&strict).await?;
    let clear = laststream(world, NAMESPACE, &["deletion-cost", "--clear"]).await?.expect(0)?;
    clear.stdout_contains(&format!("{NAMESPACE}/web: removed {GUARD}, {MARK}")).map(drop)
}

/// The annotation for Karpenter, and whether the pod has this program's mark.
async fn annotations(world: &World, name: &str) -> Outcome<(Option<String>, bool)> {
    let pod = world.cluster.get(NAMESPACE, &format!("pod/{name}")).await?;
    let annotations = &pod["metadata"]["annotations"];
    Ok((annotations[GUARD].as_str().map(str::to_owned), annotations[MARK].is_string()))
}
