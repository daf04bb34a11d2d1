//! An adversary: it plays streams, drains, signals, reloads, deaths, stalls, clock steps and faults
//! of the admin interface in a random order, and trusts only the clients and the upstream.
//!
//! `LASTSTREAM_ADVERSARY_SEED` replays a failed round, `LASTSTREAM_ADVERSARY_STEPS` lengthens the
//! run.

mod actions;
mod admin;
mod invariants;
mod streams;
mod view;
mod world;

use tokio::time::{Instant, sleep, timeout};

use self::actions::Action;
use self::invariants::MARGIN;
use self::streams::STALL;
use self::world::{Host, World};
use super::bench::SOON;
use crate::lab::{Case, LIMIT, Lab, case, number};
use kit::prelude::*;
use kit::process::tail;

const SEED: &str = "LASTSTREAM_ADVERSARY_SEED";
const STEPS: &str = "LASTSTREAM_ADVERSARY_STEPS";
const DEFAULT_SEED: u64 = 1;
const DEFAULT_STEPS: u64 = 300;
/// Steps on one Envoy. The default is six rounds, so that the plans play every value.
const ROUND: u64 = 50;
/// A deadline that is short enough to wait for.
const SHORT_DEADLINE: Duration = Duration::from_secs(10);
/// The number of last actions that a failure shows.
const SHOWN: usize = 30;
pub(in crate::cases) fn cases() -> Vec<Case> {
    vec![
        case!(nothing_opens_while_a_client_waits, limit()),
        case!(the_program_opens_nothing_either, limit()),
    ]
}

/// One second for each step is already very slow.
fn limit() -> Duration {
    LIMIT + Duration::from_secs(number(STEPS, DEFAULT_STEPS).unwrap_or(DEFAULT_STEPS))
}

async fn nothing_opens_while_a_client_waits(lab: &Lab) -> Outcome {
    play_rounds(lab, Host::Envoy).await
}

async fn the_program_opens_nothing_either(lab: &Lab) -> Outcome {
    play_rounds(lab, Host::Program).await
}

async fn play_rounds(lab: &Lab, host: Host) -> Outcome {
    // The program drains more slowly.
    let default_steps = if host == Host::Envoy { DEFAULT_STEPS } else { DEFAULT_STEPS / 2 };
    let (seed, steps) = (number(SEED, DEFAULT_SEED)?, number(STEPS, default_steps)?);
    let began = Instant::now();
    let [mut streams, mut opened, mut passed] = [0_u64; 3];
    let [mut last_calls, mut stalls, mut troubles] = [0_u64; 3];
    for round in 0..steps.div_ceil(ROUND) {
        let world = play(lab, host, seed + round, ROUND.min(steps - round * ROUND)).await?;
        streams += world.view.count() as u64;
        opened += world.opened;
        passed += world.passed;
        last_calls += world.last_calls.len() as u64;
        stalls += world.stalls;
        troubles += world.troubles;
    }
    let took = began.elapsed();
    say(&format!(
        "{steps} steps with {streams} streams in {took:?}: {opened} answers of 200, {passed} \
            signals passed, {last_calls} last calls, {stalls} stalls, {troubles} times of trouble"
    ));
    ensure!(opened > 0 && passed > 0, "a gate that never opens shows nothing");
    Ok(())
}

/// One round on a separate Envoy.
async fn play(lab: &Lab, host: Host, seed: u64, steps: u64) -> Outcome<World> {
    let mut world = World::new(lab, seed, host).await?;
    let mut trail = Vec::new();
    match play_all(&mut world, steps, &mut trail).await {
        Ok(()) => Ok(world),
        Err(failure) => {
            let shown = trail[trail.len().saturating_sub(SHOWN)..].join("\n");
            let replay = format!("{SEED}={seed} {STEPS}={steps} replays it");
            let log = world.program.as_ref().map(|program| tail(program.stderr().lines()));
            bail!(
                "{replay}; {:?}; the last actions:\n{shown}\nthen: {failure:#}\n{}",
                world.plan,
                log.unwrap_or_default()
            )
        }
    }
}

async fn play_all(world: &mut World, steps: u64, trail: &mut Vec<String>) -> Outcome {
    for step in 0..steps {
        let action = Action::any(&mut world.rng);
        let at = world.began.elapsed().as_millis();
        trail.push(format!("{step:>4} {at:>6} ms {action:?} …"));
        let done = action.perform(world).await?;
        world.check_last_calls().await?;
        trail.pop();
        trail.push(format!("{step:>4} {at:>6} ms {done}"));
        let pause = Duration::from_millis(world.rng.u64(0..25));
        sleep(pause).await;
    }
    world.signals.is_in_trouble(None);
    for (name, end) in [
        ("hold", End::Hold),
        ("idle", End::Idle),
        ("empty", End::Empty),
        ("zero", End::Zero),
        ("quit", End::Quit),
    ] {
        trail.push(format!("{:>14} ms the round ends: {name}", world.began.elapsed().as_millis()));
        end.come(world).await?;
    }
    Ok(())
}

/// The phases after the last step, in this order.
#[derive(Clone, Copy)]
enum End {
    /// A stop hook is held while clients wait, and no longer than its deadline.
    Hold,
    /// Streams that the gate need not wait for hold no hook.
    Idle,
    /// Each client gets its answer.
    Empty,
    /// The counts are back at zero, and idle gates open.
    Zero,
    /// A quit signal passes, and ends Envoy.
    Quit,
}

impl End {
    async fn come(self, world: &mut World) -> Outcome {
        match self {
            Self::Hold => holds_to_the_deadline(world).await,
            Self::Idle => idle_streams_hold_nothing(world).await,
            Self::Empty => all_end(world).await,
            Self::Zero => counts_are_zero(world).await,
            Self::Quit => quits(world).await,
        }
    }
}

async fn holds_to_the_deadline(world: &mut World) -> Outcome {
    if world.plan.deadline > SHORT_DEADLINE {
        return Ok(());
    }
    for gate in 0..world.gates.len() {
        hook_ends(world, gate, "/prestop?wait=1s", world.plan.deadline + MARGIN + STALL).await?;
    }
    Ok(())
}

/// Polls as `pilot-agent wait` does, and because a gate that has just died does not answer.
async fn hook_ends(world: &mut World, gate: usize, path: &str, limit: Duration) -> Outcome {
    let until = Instant::now() + limit;
    let mut last = String::from("no answer");
    while Instant::now() < until {
        match timeout(limit, world.poll(gate, path)).await {
            Ok(seen) => last = seen?,
            Err(_) => bail!("gate {gate}: no answer to {path} within {limit:?}"),
        }
        if last.starts_with(&format!("{path} 200")) {
            return Ok(());
        }
        sleep(Duration::from_millis(100)).await;
    }
    bail!("gate {gate}: a stop hook is held for more than {limit:?}: {last}")
}

/// All other streams end first. Only in steady rounds: without the filter that has counted the
/// streams, or its VM, the gate cannot know them.
async fn idle_streams_hold_nothing(world: &mut World) -> Outcome {
    if !world.plan.is_steady {
        return Ok(());
    }
    let until = Instant::now() + SOON;
    let (plan, view, upstream) = (&world.plan, &world.view, &world.upstream);
    let busy = || {
        world
            .streams
            .iter()
            .filter(|stream| !plan.is_idle(stream.kind) && view.open().contains(&stream.id))
    };
    while busy().count() > 0 {
        ensure!(
            Instant::now() < until,
            "clients that get no answer: {}",
            view.describe(&view.open())
        );
        busy().for_each(|stream| stream.finish(upstream));
        sleep(Duration::from_millis(30)).await;
    }
    for gate in 0..world.gates.len() {
        hook_ends(world, gate, "/prestop", world.plan.host.idle_drain()).await?;
    }
    Ok(())
}

async fn all_end(world: &mut World) -> Outcome {
    let until = Instant::now() + SOON;
    while !world.view.open().is_empty() {
        ensure!(
            Instant::now() < until,
            "clients that get no answer: {}",
            world.view.describe(&world.view.open())
        );
        world.streams.iter().for_each(|stream| stream.finish(&world.upstream));
        sleep(Duration::from_millis(30)).await;
    }
    invariants::none_was_cut(world)
}

async fn counts_are_zero(world: &mut World) -> Outcome {
    world.count_again().await?;
    for gate in 0..world.gates.len() {
        let until = Instant::now() + world.plan.host.idle_drain();
        loop {
            let status = world.status(gate).await?;
            let is_exact = matches!(status["count"].as_str(), Some("exact" | "envoy"));
            if is_exact && status["holding"] == 0 {
                break;
            }
            ensure!(
                Instant::now() < until,
                "gate {gate}: nothing is in flight, and the count is not zero: {status}"
            );
            sleep(Duration::from_millis(50)).await;
        }
        hook_ends(world, gate, "/prestop", world.plan.host.idle_drain()).await?;
    }
    invariants::gauges_are_zero(world).await?;
    world.check_last_calls().await?;
    invariants::drains(world)
}

async fn quits(world: &mut World) -> Outcome {
    world.signals.may_quit();
    let gate = world.rng.usize(0..2);
    let until = Instant::now() + world.plan.host.idle_drain();
    let mut last = String::from("no answer");
    while world.envoy.is_alive() {
        ensure!(
            Instant::now() < until,
            "gate {gate}: nothing is in flight, and no quit signal passes: {last}"
        );
        // Envoy may end before it answers.
        match world.signal(gate, "/quitquitquit").await {
            Ok(seen) if seen.starts_with('1') => break,
            seen => last = seen.unwrap_or(last),
        }
        sleep(Duration::from_millis(50)).await;
    }
    world.envoy.exited(SOON).await.context("the end of Envoy after a quit signal").map(drop)
}
