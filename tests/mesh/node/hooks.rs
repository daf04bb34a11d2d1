//! N3: hooks that ask the gate, under kubelet's rules for deadlines, repeated deletions and
//! restarts.

use super::image::LASTSTREAM;
use super::lane::{DEADLINE, Lane, Meanwhile, OUTLASTS_ALL, Seen, long_grace, side_by_side, task};
use super::plain;
use super::workload::{Workload, routes};
use super::world::{TURN, World};
use crate::seen::row;
use kit::prelude::*;

const NAMESPACE: &str = "hooks";
const REQUEST: Duration = Duration::from_secs(10);

/// The deadline of the lane `early`, and what an undrained agent takes after it.
const EARLY: Duration = Duration::from_secs(5 + 5);
/// The lane whose Deployment has a shorter grace period than rendered.
const LATE: &str = "late";
const LATE_GRACE: u32 = 8;

/// N1 covers the rendered hook, `pilot-agent wait`; here, too, all lanes but two use it.
pub(crate) async fn case() -> Outcome {
    let (world, _turn) = World::shared().await?;
    world.cluster.injected_namespace(NAMESPACE).await?;
    for name in ["own-wait", "early", LATE, "twice"] {
        let routes = routes(NAMESPACE, name, &[("kept.test", "backend.default")]);
        world.cluster.apply_all(&routes).await?;
    }
    let lanes = lanes();
    linted(world, &lanes).await?;
    let mut tasks: Vec<_> = lanes.into_iter().map(|lane| task(world, lane)).collect();
    tasks.push(Box::pin(plain::run(world, NAMESPACE)));
    let seen = side_by_side(tasks).await?;
    seen.iter().for_each(|seen| row("N3", seen.what, seen.words()));
    judge(&seen)
}

fn gateway(what: &'static str, namespace: &'static str, name: &'static str) -> Lane {
    let workload = Workload { drain: Some(long_grace()), ..Workload::gateway(namespace, name) };
    Lane { what, workload, request: REQUEST, ..Lane::default() }
}

fn lanes() -> Vec<Lane> {
    let mut own = gateway("`laststream prestop`", NAMESPACE, "own-wait");
    own.workload.proxy_hook = Some(
        json!({ "preStop": { "exec": { "command": [LASTSTREAM, "prestop", "--timeout=114s"] } } }),
    );
    let mut early = gateway("a request that outlasts the deadline of 5 s", NAMESPACE, "early");
    early.workload.drain = Some(json!({ "deadline": "5s", "grace_period": "60s" }));
    early.request = OUTLASTS_ALL;
    let what = "a request that outlasts the grace period of 8 s, and a deadline of 113 s";
    let mut late = gateway(what, NAMESPACE, LATE);
    late.workload.grace_afterwards = Some(LATE_GRACE);
    late.request = OUTLASTS_ALL;
    let what = "deleted again in the drain, with a grace period of 5 s";
    let mut twice = gateway(what, NAMESPACE, "twice");
    twice.meanwhile = Meanwhile::SecondDelete;
    vec![own, early, late, twice]
}

/// Checks that `lint` finds the mistake that is visible in the files, the grace period that is too
/// short, and nothing where the times fit.
async fn linted(world: &World, lanes: &[Lane]) -> Outcome {
    for lane in lanes {
        let said = lane.workload.lint(world).await?;
        if lane.workload.name == LATE {
            let found = said.expect(1)?.stdout;
            let wanted =
                format!("{LATE_GRACE} s of grace, and the gate needs {} s", DEADLINE.as_secs());
            let line = found
                .lines()
                .find(|line| line.contains(&wanted))
                .with_context(|| format!("`{wanted}` is not in {found}"))?;
            ensure!(found.contains("LS551"), "{found}");
            row(
                "N3",
                format!("{}: its files beforehand", lane.what),
                format!("`laststream lint`: LS551: {}", line.trim_start_matches([' ', '='])),
            );
        } else {
            let found = said.expect(0)?.stdout;
            ensure!(found.is_empty(), "{}: lint finds {found}", lane.what);
        }
    }
    Ok(())
}

fn judge(seen: &[Seen]) -> Outcome {
    let [own, early, late, twice, plain] = seen else { bail!("{} lanes", seen.len()) };
    own.expect_kept()?;
    plain.expect_kept()?;
    early.expect_lost()?;
    early.expect(early.answered >= EARLY, "the gate let go before its deadline")?;
    early.expect(!early.is_killed(), "the gate let go, and the agent ended by itself")?;
    late.expect_lost()?;
    late.expect(late.gone < DEADLINE, "kubelet does not wait for the gate")?;
    twice.expect(!twice.is_lost(), "a second deletion cuts no hook")
}

/// Runs without other cases, because a restarted kubelet runs the hooks of all ending pods again.
pub(crate) async fn restart() -> Outcome {
    tokio::time::sleep(TURN).await;
    let (world, _turn) = World::alone().await?;
    world.cluster.injected_namespace("restart").await?;
    let routes = routes("restart", "restart", &[("kept.test", "backend.default")]);
    world.cluster.apply_all(&routes).await?;
    let mut lane = gateway("kubelet killed in the hook, and back 2 s later", "restart", "restart");
    lane.meanwhile = Meanwhile::KubeletRestart;
    let seen = side_by_side(vec![task(world, lane)]).await?;
    seen.iter().for_each(|seen| row("N3", seen.what, seen.words()));
    seen.iter().try_for_each(|seen| seen.expect_kept())
}
