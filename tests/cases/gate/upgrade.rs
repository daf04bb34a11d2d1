//! A drain that began with an earlier module goes on with the present one, and the other
//! way round.

use std::path::Path;

use super::bench::{Bench, gate_filter, same};
use super::watch::opens;
use crate::cases::stage::{ACTIVE, BEGUN, IN_FLIGHT, SOON};
use crate::lab::{Lab, MODULE, cases, module_before_the_drain_crate};
use kit::prelude::*;
use kit::xds::Xds;

cases! {
    a_drain_goes_on_through_an_upgrade => |lab| a_drain_goes_on(lab, Change::Upgrade),
    a_drain_goes_on_through_a_downgrade => |lab| a_drain_goes_on(lab, Change::Downgrade),
}

const GATE: &str = r#"{"quiet_ms": 300, "deadline_ms": 90000}"#;

enum Change {
    Upgrade,
    Downgrade,
}

/// The filters of the streams and of the gate are replaced one after the other, with a stream of
/// each module in flight.
async fn a_drain_goes_on(lab: &Lab, change: Change) -> Outcome {
    let folder = module_before_the_drain_crate()?;
    let earlier = folder.path().join(MODULE);
    let (before, after) = match change {
        Change::Upgrade => (&earlier, &lab.module),
        Change::Downgrade => (&lab.module, &earlier),
    };
    let xds = Xds::new()?;
    for (name, config) in filters_of(&of(lab, before)) {
        xds.write_filter(name, &config)?;
    }
    let bench = Bench::discovered(lab, &xds).await?;
    let mut first = bench.held("first").await?;
    bench.post("/drain").await?.expect(202)?;
    bench.until("begin", "done").await?;
    for (name, config) in filters_of(&of(lab, after)) {
        xds.replace_filter(&bench.envoy, name, &config).await?.accepted().context(name)?;
        same(&bench.until("holding", 1).await?, "state", "draining")?;
        bench.get("/prestop").await?.expect(503)?;
    }
    let mut second = bench.held("second").await?;
    same(&bench.until("holding", 2).await?, "state", "draining")?;
    for (key, client) in [("first", &mut first), ("second", &mut second)] {
        bench.post("/quitquitquit").await?.expect(503)?;
        bench.release(key, client).await?;
    }
    let status = bench.until("state", "drained").await?;
    same(&status, "late", 1)?;
    same(&status, "begin", "done")?;
    opens(&bench).await?;
    bench.envoy.wait_for_stat(ACTIVE, 0, SOON).await?;
    ensure_eq!(bench.envoy.stat(IN_FLIGHT).await?, Some(0), "in flight");
    ensure_eq!(bench.envoy.stat(BEGUN).await?, Some(2), "begun");
    Ok(())
}

/// The same Envoy with another module.
fn of(lab: &Lab, module: &Path) -> Lab {
    Lab { version: lab.version, envoy: lab.envoy.clone(), module: module.to_owned() }
}

fn filters_of(lab: &Lab) -> [(&'static str, serde_json::Value); 2] {
    [
        ("laststream", lab.stream("{}").typed_config()),
        ("gate", gate_filter(lab, GATE)["typed_config"].take()),
    ]
}
