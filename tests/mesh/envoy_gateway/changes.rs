//! G5: the findings of `laststream lint --change` about objects of Envoy Gateway, compared with the
//! listeners that Envoy replaces when the controller has sent the change.

use super::count::ADMIN;
use super::pod::Pod;
use super::world::World;
use crate::objects::changes;
use kit::prelude::*;
use kit::wire::local;

const GATEWAY: &str = "g4";

pub(super) async fn case() -> Outcome {
    let world = World::get().await?;
    let upstream = Upstream::start().await?;
    world.gateway(GATEWAY, &upstream).await?;
    let deployment = world.deployment(GATEWAY, |_| true).await?;
    let _pod = Pod::serving(world, &deployment).await?;
    for change in changes(include_str!("objects/changes.yaml"), &[("gateway", &GATEWAY)])? {
        let compared = change.compare("G5", (&world.cluster, &world.user, local(ADMIN))).await;
        compared.with_context(|| world.controller.log())?;
    }
    Ok(())
}
