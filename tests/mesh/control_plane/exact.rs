//! M9: `render statistics` makes the count of a running gateway exact, without another pod and
//! without the annotation.

use super::stage::Stage;
use crate::seen::row;
use kit::prelude::*;

pub(super) async fn without_a_restart() -> Outcome {
    let stage = Stage::new("m9").await?;
    stage.apply(&stage.gateway_objects()?).await?;
    let policy = stage.gateway_policy("drain: {longest_request: 600s, finish: nothing}\n");
    stage.put(&policy).await?;
    let _gateway = stage.gateway(&[]).await?;
    stage.answers(200).await?;
    stage.status_with("count", "assumed").await?;
    stage.world.cluster.apply(&stage.render(&["statistics"], &policy)?).await?;
    stage.status_with("count", "exact").await?;
    let held = stage.held(1).await?;
    stage.drain().await?;
    // While a stream holds, Envoy's count decides nothing, and the gate does not ask for it.
    stage.status_with("state", "draining").await?;
    stage.answered(held).await?;
    stage.drained().await?;
    stage.nothing_refused()?;
    row(
        "M9",
        "`render statistics`, on a running gateway without the annotation",
        "`assumed` becomes `exact`; a request holds a drain, and after it the gate is drained",
    );
    Ok(())
}
