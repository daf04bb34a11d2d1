//! G4: a response that takes longer than Envoy Gateway's own 15 s, without a policy and with the
//! profile `streaming`.

use tokio::time::timeout;

use super::controller::EDGE;
use super::pod::{PORT, Pod};
use super::world::World;
use crate::seen::row;
use kit::prelude::*;
use kit::wait::ANSWER;
use kit::wire::local;

const GATEWAY: &str = "g4";
const TAKES: Duration = Duration::from_secs(18);
/// The statuses by Envoy Gateway's default, and by the profile.
const CUT: u16 = 504;
const WHOLE: u16 = 200;

pub(super) async fn case() -> Outcome {
    let world = World::get().await?;
    let upstream = Upstream::start().await?;
    world.gateway(GATEWAY, &upstream).await?;
    let untimed = r#"--patch=[{"op": "remove", "path": "/spec/rules/0/timeouts"}]"#;
    let route = format!("httproute/{GATEWAY}");
    world.cluster.patch(EDGE, &route, &["--type=json", untimed]).await?;
    let own = world.deployment(GATEWAY, |_| true).await?;
    status_of(world, &upstream, &own, CUT).await?;
    world.put(GATEWAY, "profile: streaming\n").await?;
    let has_volume = |pod: &Value| pod["volumes"].to_string().contains("image");
    let deployment = world.deployment(GATEWAY, has_volume).await?;
    status_of(world, &upstream, &deployment, WHOLE).await?;
    for (what, status) in [("nothing", CUT), ("`profile: streaming`", WHOLE)] {
        let what = format!("a response of {} s, {what}", TAKES.as_secs());
        row("G4", what, format!("{status}"));
    }
    Ok(())
}

/// Waits until the slow response has this status through a pod of this Deployment. Envoy may get
/// the change of the route a little later.
async fn status_of(
    world: &World,
    upstream: &Upstream,
    deployment: &Value,
    expected: u16,
) -> Outcome {
    let _pod = Pod::serving(world, deployment).await?;
    wait_for(PATIENCE, "the status", async || {
        let key = format!("slow-{}", fastrand::u64(..));
        let mut client = Client::connect(local(PORT)).await?.patience(TAKES + ANSWER);
        client.send(&Request::get(&format!("/hold/{key}")).bytes()).await?;
        upstream.wait_held(&key, 1, PATIENCE).await?;
        let early = timeout(TAKES, client.response("GET")).await;
        if early.is_err() && expected == WHOLE {
            upstream.release(&key);
        }
        let answer = match early {
            Ok(answer) => answer?,
            Err(_) => client.response("GET").await?,
        };
        ensure_eq!(answer.status, expected, "the status");
        Ok(())
    })
    .await
}
