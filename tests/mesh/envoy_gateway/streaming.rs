//! G4: a response that takes longer than Envoy Gateway's own 15 s, without a policy and with the
//! profile `streaming`.

use super::pod::{PORT, Pod};
use super::world::{EDGE, World};
use crate::seen::row;
use kit::prelude::*;
use kit::wire::local;

const GATEWAY: &str = "g4";
const TAKES: Duration = Duration::from_secs(18);

pub(super) async fn case() -> Outcome {
    let world = World::get().await?;
    let upstream = Upstream::start().await?;
    world.gateway(GATEWAY, upstream.h1()).await?;
    let untimed = r#"--patch=[{"op": "remove", "path": "/spec/rules/0/timeouts"}]"#;
    let route = format!("httproute/{GATEWAY}");
    world.cluster.patch(EDGE, &route, &["--type=json", untimed]).await?;
    let own = world.deployment(GATEWAY, |_| true).await?;
    let cut = status_of(world, &own).await?;
    world.put(GATEWAY, "profile: streaming\n").await?;
    let has_volume = |pod: &Value| pod["volumes"].to_string().contains("image");
    let whole = status_of(world, &world.deployment(GATEWAY, has_volume).await?).await?;
    for (what, status) in [("nothing", cut), ("`profile: streaming`", whole)] {
        let what = format!("a response of {} s, {what}", TAKES.as_secs());
        row("G4", what, format!("{status}"));
    }
    ensure_eq!((cut, whole), (504, 200), "by Envoy Gateway's default, and by the profile");
    Ok(())
}

/// The status of the slow response through a pod of this Deployment.
async fn status_of(world: &World, deployment: &Value) -> Outcome<u16> {
    let _pod = Pod::serving(world, deployment).await?;
    let mut client = Client::connect(local(PORT)).await?.patience(2 * TAKES);
    Ok(client.get(&format!("/delay/{}", TAKES.as_millis())).await?.status)
}
