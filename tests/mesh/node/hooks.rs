//! N3: hooks that ask the gate, under kubelet's rules for deadlines, repeated deletions and
//! restarts.

use super::image::LASTSTREAM;
use super::lane::{Lane, Meanwhile, Seen, side_by_side, task};
use super::plain;
use super::workload::{Workload, routes};
use super::world::World;
use crate::seen::row;
use kit::prelude::*;

const NAMESPACE: &str = "hooks";
const REQUEST: Duration = Duration::from_secs(10);
/// Longer than deadline and grace period of the lanes that lose the request.
const LONG_REQUEST: Duration = Duration::from_secs(25);
const GRACE: Duration = Duration::from_secs(30);

/// The others that run alone take their turns first, so that fewer pods are still ending.
const TURN: Duration = Duration::from_secs(1);

/// The lane whose Deployment has a shorter grace period than rendered; its gate has the default
/// deadline.
const LATE: &str = "late";
const LATE_GRACE: u32 = 8;
const DEADLINE: Duration = Duration::from_secs(23);

/// N1 covers the rendered hook, `pilot-agent wait`; here, too, all lanes but two use it. It runs
/// without other cases, because a rendered grace period has 2 s to spare, and a node that starts
/// the pods of all cases needs more.
pub(crate) async fn case() -> Outcome {
    tokio::time::sleep(TURN).await;
    let (world, _turn) = World::alone().await?;
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
    let workload = Workload::gateway(namespace, name);
    Lane { what, workload, request: REQUEST, ..Lane::default() }
}

fn lanes() -> Vec<Lane> {
    let mut own = gateway("`laststream prestop`", NAMESPACE, "own-wait");
    own.workload.proxy_hook = Some(
        json!({ "preStop": { "exec": { "command": [LASTSTREAM, "prestop", "--timeout=25s"] } } }),
    );
    let mut early =
        gateway("a request of 25 s, a deadline of 5 s, a grace period of 12 s", NAMESPACE, "early");
    early.workload.drain = Some(json!({ "deadline": "5s" }));
    early.request = LONG_REQUEST;
    let mut late =
        gateway("a request of 25 s, a deadline of 23 s in a grace period of 8 s", NAMESPACE, LATE);
    late.workload.grace_afterwards = Some(LATE_GRACE);
    late.request = LONG_REQUEST;
    let mut twice =
        gateway("deleted again after 2 s, with a grace period of 5 s", NAMESPACE, "twice");
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
    own.expect_kept(GRACE)?;
    plain.expect_kept(GRACE)?;
    early.expect_lost()?;
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
    let mut lane =
        gateway("kubelet killed 2 s into the hook, and back 2 s later", "restart", "restart");
    lane.meanwhile = Meanwhile::KubeletRestart;
    let seen = side_by_side(vec![task(world, lane)]).await?;
    seen.iter().for_each(|seen| row("N3", seen.what, seen.words()));
    seen.iter().try_for_each(|seen| seen.expect_kept(GRACE))
}
