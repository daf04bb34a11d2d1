//! A drain that began with an earlier module goes on with the present one, and the other
//! way round.

use std::path::Path;

use super::bench::{Bench, bootstrap, gate_filter, gate_listener_with, options, same};
use super::watch::opens;
use crate::cases::stage::{ACTIVE, BEGUN, IN_FLIGHT, SOON, discovered};
use crate::lab::{Lab, MODULE, cases, module_before_the_drain_crate};
use kit::prelude::*;
use kit::xds::{Verdict, Xds};

cases! {
    a_drain_goes_on_through_an_upgrade,
    a_drain_goes_on_through_a_downgrade,
}

const GATE: &str = r#"{"quiet_ms": 300, "deadline_ms": 90000}"#;

async fn a_drain_goes_on_through_an_upgrade(lab: &Lab) -> Outcome {
    let earlier = module_before_the_drain_crate()?;
    a_drain_goes_on(lab, &earlier.path().join(MODULE), &lab.module).await
}

async fn a_drain_goes_on_through_a_downgrade(lab: &Lab) -> Outcome {
    let earlier = module_before_the_drain_crate()?;
    a_drain_goes_on(lab, &lab.module, &earlier.path().join(MODULE)).await
}

/// The filters of the streams and of the gate are replaced one after the other, with a stream of
/// each module in flight.
async fn a_drain_goes_on(lab: &Lab, before: &Path, after: &Path) -> Outcome {
    let xds = Xds::new()?;
    write(&xds, &of(lab, before))?;
    let bench = bench(lab, &xds).await?;
    let mut first = bench.held("first").await?;
    bench.post("/drain").await?.expect(202)?;
    bench.until("begin", "done").await?;
    let after = of(lab, after);
    for (name, config) in filters_of(&after) {
        ensure_eq!(
            xds.replace_filter(&bench.envoy, name, &config).await?,
            Verdict::Accepted,
            "{name}"
        );
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

fn write(xds: &Xds, lab: &Lab) -> Outcome {
    filters_of(lab).iter().try_for_each(|(name, config)| xds.write_filter(name, config))
}

/// Both filters are discovered.
async fn bench(lab: &Lab, xds: &Xds) -> Outcome<Bench> {
    let upstream = Upstream::start().await?;
    let bootstrap = bootstrap(&upstream)
        .listener(Listener::new("main", discovered(xds)).direction("INBOUND"))
        .listener(gate_listener_with("gate", filters::discovered("gate", xds)));
    Bench::start(lab, upstream, bootstrap, options()).await
}
