//! Two builds of the module in one Envoy, as while an upgrade or a downgrade goes on.

use tokio::task::JoinHandle;

use super::bench::{
    Bench, bootstrap, gate_filter, gate_listener, gate_listener_with, main_listener, options, same,
};
use super::watch::{lets_nothing_out, opens};
use crate::cases::stage::{ACTIVE, BEGUN, IN_FLIGHT, SOON, routes};
use crate::lab::{Lab, another_version, cases, of_another_version};
use kit::prelude::*;
use kit::wire::free_port;
use kit::xds::Xds;

cases! {
    a_drain_goes_on_through_an_upgrade => |lab| a_drain_goes_on(lab, Change::Upgrade),
    a_drain_goes_on_through_a_downgrade => |lab| a_drain_goes_on(lab, Change::Downgrade),
    gates_and_counters_of_two_builds_wait_for_all_streams,
}

const GATE: &str = r#"{"quiet_ms": 300, "deadline_ms": 90000}"#;

enum Change {
    Upgrade,
    Downgrade,
}

/// The filters of the streams and of the gate are replaced one after the other, with a stream of
/// each module in flight.
async fn a_drain_goes_on(lab: &Lab, change: Change) -> Outcome {
    let (other, _folder) = of_another_version(lab)?;
    let own = env!("CARGO_PKG_VERSION").to_owned();
    let ((before, _), (after, version)) = match change {
        Change::Upgrade => ((lab, own), (&other, another_version())),
        Change::Downgrade => ((&other, another_version()), (lab, own)),
    };
    let xds = Xds::new()?;
    for (name, config) in filters_of(before) {
        xds.write_filter(name, &config)?;
    }
    let bench = Bench::discovered(lab, &xds).await?;
    let mut first = bench.held("first").await?;
    bench.post("/drain").await?.expect(202)?;
    bench.until("begin", "done").await?;
    for (name, config) in filters_of(after) {
        xds.replace_filter(&bench.envoy, name, &config).await?.accepted().context(name)?;
        same(&bench.until("holding", 1).await?, "state", "draining")?;
        bench.get("/prestop").await?.expect(503)?;
    }
    bench.until("version", version).await?;
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

fn filters_of(lab: &Lab) -> [(&'static str, serde_json::Value); 2] {
    [
        ("laststream", lab.stream("{}").typed_config()),
        ("gate", gate_filter(lab, GATE)["typed_config"].take()),
    ]
}

/// Two listeners with streams and two with gates, of one build each. The builds change places while
/// streams are in flight: the filter chains that drain are of both builds, and so are their
/// successors.
async fn gates_and_counters_of_two_builds_wait_for_all_streams(lab: &Lab) -> Outcome {
    let (other, _folder) = of_another_version(lab)?;
    let (upstream, xds) = (Upstream::start().await?, Xds::new()?);
    let ports = [free_port()?, free_port()?, free_port()?, free_port()?];
    xds.write_listeners(&listeners([lab, &other], ports))?;
    let bootstrap = bootstrap(&upstream).listeners_from(&xds);
    let mut bench = Bench::start(lab, upstream, bootstrap, options()).await?;
    let gates = [bench.gate, bench.envoy.address("other-gate").await?];
    let mut versions = [env!("CARGO_PKG_VERSION").to_owned(), another_version()];
    let mut held = both_held(&bench, "former").await?;
    both_are_exact(&mut bench, gates, &versions).await?;
    xds.replace_listeners(&bench.envoy, &listeners([&other, lab], ports)).await?.accepted()?;
    versions.reverse();
    held.extend(both_held(&bench, "later").await?);
    both_are_exact(&mut bench, gates, &versions).await?;
    bench.envoy.wait_for_stat(IN_FLIGHT, 4, SOON).await?;
    both_wait(&mut bench, gates, held).await?;
    both_are_exact(&mut bench, gates, &versions).await?;
    ensure_eq!(bench.envoy.stat(IN_FLIGHT).await?, Some(0), "in flight");
    ensure_eq!(bench.envoy.stat(BEGUN).await?, Some(4), "begun");
    Ok(())
}

/// A stream in flight at each listener, with its key.
async fn both_held(bench: &Bench, key: &str) -> Outcome<Vec<(String, Client)>> {
    let mut held = Vec::new();
    for listener in ["main", "other"] {
        let key = format!("{key}-{listener}");
        held.push((key.clone(), bench.held_at(listener, &key).await?));
    }
    Ok(held)
}

async fn both_are_exact(
    bench: &mut Bench,
    gates: [SocketAddr; 2],
    versions: &[String; 2],
) -> Outcome {
    for (gate, version) in gates.into_iter().zip(versions) {
        bench.gate = gate;
        bench.until("version", version.as_str()).await?;
        bench.until("count", "exact").await?;
    }
    Ok(())
}

/// A drain that begins at one gate ends at both, and not before the last stream has ended.
async fn both_wait(
    bench: &mut Bench,
    gates: [SocketAddr; 2],
    held: Vec<(String, Client)>,
) -> Outcome {
    bench.post("/drain").await?.expect(202)?;
    let mut hooks = Vec::new();
    for gate in gates {
        bench.gate = gate;
        same(&bench.until("holding", held.len()).await?, "state", "draining")?;
        lists_all(bench, held.len()).await?;
        hooks.push(bench.hook());
    }
    for (key, mut client) in held {
        for gate in gates {
            bench.gate = gate;
            lets_nothing_out(bench, 2).await.with_context(|| format!("before {key} ends"))?;
        }
        ensure!(!hooks.iter().any(JoinHandle::is_finished), "a hook ends before {key}");
        bench.release(&key, &mut client).await?;
    }
    for (gate, hook) in gates.into_iter().zip(hooks) {
        hook.await.context("the hook's task")??.expect(200)?;
        bench.gate = gate;
        opens(bench).await?;
    }
    Ok(())
}

/// The counters of both builds answer the gate.
async fn lists_all(bench: &Bench, streams: usize) -> Outcome {
    wait_for(SOON, "a complete listing", async || {
        let listing = bench.get("/streams").await?.expect(200)?.json()?;
        same(&listing, "complete", true)?;
        ensure_eq!(listing["streams"].as_array().map(Vec::len), Some(streams), "{listing}");
        Ok(())
    })
    .await
}

/// The listeners `main` and `gate` with the first module, `other` and `other-gate` with the second.
fn listeners(labs: [&Lab; 2], ports: [u16; 4]) -> Vec<Listener> {
    let [first, second] = labs;
    let other = routes(Hcm::new("other").filter(second.stream("{}").filter()));
    let listeners = [
        main_listener(first),
        gate_listener(first, GATE),
        Listener::new("other", other).direction("INBOUND"),
        gate_listener_with("other-gate", gate_filter(second, GATE)),
    ];
    listeners.into_iter().zip(ports).map(|(listener, port)| listener.port(port)).collect()
}
