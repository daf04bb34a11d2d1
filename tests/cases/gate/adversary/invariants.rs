//! The invariants after each action, judged by the knowledge of the clients and the upstream.

use tokio::time::{Instant, sleep};

use super::view::{Id, State};
use super::world::{OPEN, Pass, World};
use kit::prelude::*;

/// A client reads an answer that is there within this time, also on a busy machine.
const GRACE: Duration = Duration::from_millis(200);
/// The time by which, on a busy machine, a hold may exceed its deadline, and an open gate its time.
pub(super) const MARGIN: Duration = Duration::from_secs(3);
/// The largest difference between two clocks.
const NOISE: Duration = Duration::from_millis(200);

/// States in which streams in flight do not matter.
pub(super) fn lets_all_go(state: &str) -> bool {
    matches!(state, "expired" | "forced")
}

/// Checks an answer of 200 to the request that was sent at `asked`: no client waits, or the
/// deadline is over, or the gate was forced.
pub(super) async fn opened(
    world: &World,
    gate: usize,
    path: &str,
    asked: Instant,
    answer: &Value,
) -> Outcome {
    let waiting = world.view.waiting(gate, asked);
    match answer["state"].as_str().unwrap_or_default() {
        "drained" => {
            let left = still_open(world, &waiting).await;
            ensure!(
                left.is_empty(),
                "gate {gate}: GET {path} answered {answer} while clients wait: {}",
                world.view.describe(&left)
            );
        }
        "expired" => {
            let lasted = Instant::now() - world.gates[gate].served;
            ensure!(
                lasted + NOISE >= world.plan.deadline,
                "gate {gate}: expired {lasted:?} after it has served: {answer}"
            );
        }
        "forced" => {
            let since = world.gates[gate].forced.map(|at| asked.saturating_duration_since(at));
            ensure!(
                since.is_some_and(|since| since < OPEN + MARGIN),
                "gate {gate}: forced {since:?} ago: {answer}"
            );
        }
        other => bail!("gate {gate}: GET {path} answered 200 in the state {other:?}: {answer}"),
    }
    Ok(())
}

/// Checks a signal that has passed. `states` are the gate's states before and after it.
pub(super) async fn passed(world: &World, gate: usize, pass: &Pass, states: [&str; 2]) -> Outcome {
    if states.into_iter().any(lets_all_go) {
        return Ok(());
    }
    let left = still_open(world, &pass.waiting).await;
    let seen = world.view.describe(&left);
    ensure!(
        left.is_empty(),
        "gate {gate}: passed POST {} ({}, then {}) while clients wait: {seen}",
        pass.path,
        states[0],
        states[1]
    );
    Ok(())
}

/// Checks a status: no drain is older than its deadline, or than the time for which it can have
/// lasted.
pub(super) fn plausible(world: &World, gate: usize, status: &Value) -> Outcome {
    let millis = |field: &str| status[field].as_u64().map(Duration::from_millis);
    let Some(lasted) = millis("draining_ms").filter(|_| status["state"] == "draining") else {
        return Ok(());
    };
    let most = Instant::now() - world.gates[gate].served + NOISE;
    ensure!(
        lasted <= most,
        "gate {gate}: draining for {lasted:?}, and it has served {most:?} ago: {status}"
    );
    ensure!(
        lasted <= world.plan.deadline + MARGIN,
        "gate {gate}: draining beyond its deadline: {status}"
    );
    let left = millis("deadline_in_ms").unwrap_or_default();
    ensure!(
        left <= world.plan.deadline,
        "gate {gate}: a deadline of {:?} is {left:?} away: {status}",
        world.plan.deadline
    );
    Ok(())
}

/// Drains begin at most once for each deadline, and once more for each drain that was ended by
/// hand.
pub(super) fn drains(world: &World) -> Outcome {
    let began = world.envoy.log().matches("the drain begins").count() as u64;
    let deadlines = world.began.elapsed().as_millis() / world.plan.deadline.as_millis() + 1;
    let most = world.gates.len() as u64 * u64::try_from(deadlines)? + world.resets;
    ensure!(began <= most, "{began} drains have begun; {most} would have been enough");
    Ok(())
}

/// Without a death every client gets its answer.
pub(super) fn none_was_cut(world: &World) -> Outcome {
    let cut: Vec<Id> =
        (0..world.view.count()).filter(|&id| world.view.state(id) == State::Cut).collect();
    ensure!(
        world.deaths > 0 || cut.is_empty(),
        "clients whose streams were cut: {}",
        world.view.describe(&cut)
    );
    Ok(())
}

async fn still_open(world: &World, ids: &[Id]) -> Vec<Id> {
    let open = |id: &Id| matches!(world.view.state(*id), State::Sent | State::Waiting(_));
    if ids.iter().any(open) {
        sleep(GRACE).await;
    }
    ids.iter().copied().filter(open).collect()
}
