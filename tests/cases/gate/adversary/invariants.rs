//! The invariants after each action, judged by the knowledge of the clients and the upstream.

use laststream_drain::sim::expected::{self, wrong_opening};
use laststream_drain::state::{Millis, Phase};
use tokio::time::{Instant, sleep_until};

use super::admin::{LAST_CALL_TAKES, Pass};
use super::view::{Id, State};
use super::world::{OPEN, World};
use kit::prelude::*;
use kit::process::Process;

/// A client reads an answer that is there within this time, also on a busy machine.
const GRACE: Duration = Duration::from_millis(200);
/// The time by which, on a busy machine, a hold may exceed its deadline, and an open gate its time.
pub(super) const MARGIN: Duration = Duration::from_secs(3);
/// The largest difference between two clocks.
const NOISE: Duration = Duration::from_millis(200);

/// A gauge below zero is printed above this.
const MOST: u64 = i64::MAX as u64;

/// States in which streams in flight do not matter.
pub(super) fn lets_all_go(state: &str) -> bool {
    expected::phase(state).is_some_and(expected::is_open_anyway)
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
    let phase = answer["state"].as_str().and_then(expected::phase).unwrap_or_default();
    let left = match phase {
        Phase::Drained => still_open(world, &waiting, Instant::now()).await,
        _ => waiting,
    };
    let millis = |time: Duration| u64::try_from(time.as_millis()).map(Millis);
    let (lasted, deadline) = (Instant::now() - world.gates[gate].served, world.plan.deadline);
    let wrong = wrong_opening(phase, left.len() as u64, millis(lasted + NOISE)?, millis(deadline)?);
    ensure!(
        wrong.is_none(),
        "gate {gate}: GET {path} answered {answer}, {lasted:?} after it has served, but {}: {}",
        wrong.unwrap_or_default(),
        world.view.describe(&left)
    );
    let since = world.gates[gate].forced.map(|at| asked.saturating_duration_since(at));
    ensure!(
        phase != Phase::Forced || since.is_some_and(|since| since < OPEN + MARGIN),
        "gate {gate}: forced {since:?} ago: {answer}"
    );
    Ok(())
}

/// Checks a signal that has passed. `states` are the gate's states before and after it.
pub(super) async fn passed(world: &World, gate: usize, pass: &Pass, states: [&str; 2]) -> Outcome {
    if states.into_iter().any(lets_all_go) {
        return Ok(());
    }
    let left = still_open(world, &pass.waiting, pass.at).await;
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

/// Checks the last call of a drain, which is made at zero and never at the deadline. It ends the
/// process, with the streams of both gates.
pub(super) async fn last_call(world: &World, call: &Pass) -> Outcome {
    let left = still_open(world, &call.waiting, call.at).await;
    let seen = world.view.describe(&left);
    ensure!(left.is_empty(), "the last call, POST {}, while clients wait: {seen}", call.path);
    Ok(())
}

/// Checks the answer to `DELETE /drain`, which had arrived at `answered`: a call that Envoy has not
/// answered yet, or gets after that, is named.
pub(super) fn cancelled(world: &World, answered: Instant, answer: &Response) -> Outcome {
    let is_unanswered = world.last_calls.iter().any(|at| *at + LAST_CALL_TAKES > answered);
    ensure!(
        !is_unanswered || answer.text().contains("was sent"),
        "the last call is on its way, and DELETE /drain answered {}",
        answer.text()
    );
    Ok(())
}

/// Checks a status: no number of streams is below zero, and no drain is older than its deadline, or
/// than the time for which it can have lasted.
pub(super) fn plausible(world: &World, gate: usize, status: &Value) -> Outcome {
    let scopes = status["scopes"].as_array().into_iter().flatten();
    let numbers = scopes.flat_map(|scope| [&scope["in_flight"], &scope["long_lived"]]);
    ensure!(
        numbers.chain([&status["holding"]]).all(|number| number.as_u64() <= Some(MOST)),
        "gate {gate}: a number below zero: {status}"
    );
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
    let program = world.program.as_ref().map(Process::stderr).unwrap_or_default();
    let log = world.envoy.log() + &program;
    let began = log.matches("the drain begins").count() as u64;
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

/// The gauges of Envoy itself are not below zero, and those of the gates' scopes are zero.
pub(super) async fn gauges_are_zero(world: &World) -> Outcome {
    let stats = world.envoy.stats().await?;
    for gauge in ["in_flight", "long_lived"] {
        for (scope, has_gate) in
            [("inbound", !world.plan.by_envoy || world.plan.twins), ("outbound", !world.plan.twins)]
        {
            let value = stats.get(&format!("wasmcustom.laststream_streams_{gauge}_{scope}"));
            let most = if has_gate { 0 } else { MOST };
            ensure!(value <= Some(&most), "{gauge} of {scope} is {value:?}");
        }
    }
    Ok(())
}

/// Those of the streams that were open at that moment, and a little later.
async fn still_open(world: &World, ids: &[Id], at: Instant) -> Vec<Id> {
    let open = |id: &Id| world.view.outlasted(*id, at + GRACE);
    if ids.iter().any(open) {
        sleep_until(at + GRACE).await;
    }
    ids.iter().copied().filter(open).collect()
}
