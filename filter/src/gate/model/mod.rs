//! The protocol of the drain, checked exhaustively: two workers run the module's own code (`Gate`,
//! `Counter`, `Stream`) over an Envoy that does one thing at a time, in every order that a
//! configuration below allows. Each configuration is small; together they cover the protocol.
//!
//! **Modelled**: shared data, queues, metrics, timers, calls to the admin interface, which Envoy
//! serves at a moment between the call and its answer, and which may fail or be late; streams of
//! four kinds, also in an earlier filter, refused ones, those that outlive their VM, and those that
//! Envoy has closed before the filter sees it; VM deaths, also in the middle of a callback; reloads
//! of counters and of a gate; workers that stand still; a wall clock that steps; the port of
//! Istio's agent. With [`Setup::is_fine`] a worker can be overtaken before each host call that
//! touches a metric of streams, with [`Setup::is_raced`] before it stores the record; otherwise a
//! callback of a VM is one step.
//!
//! **Not modelled**: the app, bytes that wait to be written, `long_lived_after_ms`, the ends of
//! streams, clients that give up, and more than two workers.
//!
//! The mistakes that the model finds when they are put back are in `filter/drain/mutations.txt`,
//! and `.ci/mutations` makes them. Not found: a stream that checks the latch before it is counted.
//! The census also prevents harm: the worker replies to the round behind the closed latch only
//! after the callback, and the gate reads the gauges after that.

mod calls;
mod checks;
mod faults;
mod port;
mod properties;
mod reloads;
mod setup;
mod shared;
mod step;
mod worker;
mod world;

use std::time::{Duration, Instant};

use laststream_drain::timing::{AFTER_DEADLINE, DEAD_AFTER};
use stateright::{Checker, Model, Property};

use crate::config::wire::Scope;
use setup::{Goal, Kind, QUIET, Setup};
use step::Action;
use world::World;

struct Protocol(Setup);

impl Model for Protocol {
    type State = World;
    type Action = Action;

    fn init_states(&self) -> Vec<World> {
        vec![World::new(&self.0)]
    }

    fn actions(&self, state: &World, actions: &mut Vec<Action>) {
        state.actions(&self.0, actions);
    }

    fn next_state(&self, last: &World, action: Action) -> Option<World> {
        Some(last.after(&self.0, &action))
    }

    fn properties(&self) -> Vec<Property<Self>> {
        properties::of(self)
    }
}

/// Checks every state of this configuration.
#[allow(clippy::print_stdout, reason = "how many states there were is the result")]
fn check(setup: Setup) {
    let name = std::thread::current().name().unwrap_or_default().to_string();
    let started = Instant::now();
    let checker = Protocol(setup).checker().timeout(LONGEST).spawn_bfs().join();
    println!(
        "{name}: {} distinct states, {} steps, depth {}, {:?}",
        checker.unique_state_count(),
        checker.state_count(),
        checker.max_depth(),
        started.elapsed()
    );
    for (property, path) in checker.discoveries() {
        println!("  {property}: {:?}", path.into_actions());
    }
    assert!(checker.is_done() && started.elapsed() < LONGEST, "not all states were reached");
    checker.assert_properties();
}

/// For a model that never ends. The largest takes a minute on a quiet machine.
const LONGEST: Duration = Duration::from_secs(1_800);

fn naps(quiet: u8, seconds: u8) -> Vec<(u64, u8)> {
    vec![(QUIET, quiet), (1_000, seconds)]
}

/// A hook that is held until the gate opens.
const HOOK: &str = "/prestop?wait";
const QUIT: &str = "/quitquitquit";

#[test]
fn idle() {
    let setup = Setup { naps: naps(3, 0), ..Setup::plain() };
    check(
        setup.request(0, "GET", HOOK).request(1, "GET", HOOK).reaches(&[Goal::Drained, Goal::Open]),
    );
}

#[test]
fn drain() {
    let setup = Setup { is_unordered: true, naps: naps(2, 0), ..Setup::plain() }
        .stream(0, Kind::Plain)
        .stream(1, Kind::Uncounted);
    check(setup.request(0, "GET", HOOK).reaches(&[Goal::Drained, Goal::Open]));
}

#[test]
fn poll() {
    let setup = Setup { naps: naps(1, 0), ..Setup::plain() }.stream(1, Kind::Plain);
    check(
        setup
            .request(0, "GET", "/prestop")
            .request(0, "GET", "/ready")
            .request(0, "GET", "/ready")
            .reaches(&[Goal::Drained, Goal::Open]),
    );
}

#[test]
fn kinds() {
    let setup = Setup { exempts: true, begun: 2, naps: naps(1, 0), ..Setup::plain() };
    let setup = setup.stream(0, Kind::Long).stream(1, Kind::Excluded).stream(1, Kind::Uncounted);
    check(setup.request(0, "GET", HOOK).reaches(&[Goal::Drained, Goal::Open]));
}

#[test]
fn torn() {
    let setup = Setup {
        exempts: true,
        exports: false,
        is_fine: true,
        is_lasting: true,
        naps: Vec::new(),
        ..Setup::plain()
    };
    check(
        setup
            .stream(1, Kind::Plain)
            .stream(1, Kind::Long)
            .request(0, "POST", QUIT)
            .reaches(&[Goal::Passed]),
    );
}

#[test]
fn signal() {
    let setup = Setup { is_fine: true, naps: Vec::new(), ..Setup::plain() }.stream(1, Kind::Plain);
    check(setup.request(0, "POST", QUIT).reaches(&[Goal::Passed, Goal::Refused]));
}

#[test]
fn signals() {
    let setup = Setup { begun: 2, naps: Vec::new(), ..Setup::plain() };
    let setup = setup.stream(0, Kind::Plain).stream(1, Kind::Uncounted).stream(1, Kind::Plain);
    check(
        setup
            .request(0, "POST", "/drain_listeners")
            .request(1, "POST", QUIT)
            .reaches(&[Goal::Passed, Goal::Refused]),
    );
}

#[test]
fn two_gates() {
    let setup = Setup {
        gates: vec![Scope::Inbound, Scope::Outbound],
        begun: 2,
        naps: naps(1, 0),
        ..Setup::plain()
    };
    let setup = setup.stream_of(1, Scope::Inbound).stream_of(1, Scope::Outbound);
    check(
        setup
            .request_of(0, 0, "GET", HOOK)
            .request_of(1, 1, "GET", "/ready")
            .reaches(&[Goal::Drained, Goal::Open]),
    );
}

#[test]
fn death() {
    let setup = Setup { deaths: 1, naps: naps(1, 1), ..Setup::plain() }.stream(1, Kind::Plain);
    check(setup.request(0, "GET", HOOK).reaches(&[Goal::Drained, Goal::Open]));
}

#[test]
fn heal() {
    let naps = vec![(QUIET, 2), (DEAD_AFTER.0, 1)];
    let setup = Setup { deaths: 1, begun: 1, naps, ..Setup::plain() }.stream(1, Kind::Plain);
    check(setup.request(0, "GET", HOOK).reaches(&[Goal::Healed, Goal::Open]));
}

#[test]
fn reborn() {
    let setup = Setup { deaths: 1, is_reborn: true, naps: naps(0, 1), ..Setup::plain() }
        .stream(1, Kind::Plain);
    check(setup.request(0, "POST", QUIT).reaches(&[Goal::Passed]));
}

#[test]
fn reload() {
    let setup =
        Setup { reloads: 1, begun: 1, naps: naps(1, 0), ..Setup::plain() }.stream(1, Kind::Plain);
    check(setup.request(0, "GET", HOOK).reaches(&[Goal::Drained, Goal::Open]));
}

#[test]
fn unloaded() {
    let setup =
        Setup { reloads: 1, begun: 1, loads_nothing: true, naps: naps(1, 0), ..Setup::plain() };
    check(
        setup
            .stream(1, Kind::Plain)
            .stream(1, Kind::Plain)
            .request(0, "GET", HOOK)
            .reaches(&[Goal::Drained, Goal::Open]),
    );
}

/// A worker that reads no message for a second may still run. No signal passes until it has been
/// silent for long, because its next stream would not check the latch.
#[test]
fn a_stalled_worker_holds_the_signal() {
    let setup = Setup { stalls: true, naps: naps(0, 1), ..Setup::plain() }.stream(1, Kind::Plain);
    check(
        setup
            .request(0, "GET", "/status")
            .request(0, "POST", QUIT)
            .reaches(&[Goal::Passed, Goal::Refused]),
    );
}

/// A worker that was stalled for seconds still checks the latch, before it reads any message.
#[test]
fn a_stalled_worker_checks_the_latch() {
    let naps = vec![(QUIET, 1), (AFTER_DEADLINE.0 - 100, 1)];
    let setup = Setup { stalls: true, finish: "quit", naps, ..Setup::plain() };
    check(
        setup
            .stream(1, Kind::Plain)
            .request(0, "POST", "/drain")
            .reaches(&[Goal::Drained, Goal::Passed]),
    );
}

/// A VM dies while the other worker may be stalled.
#[test]
fn death_beside_a_stalled_worker() {
    let setup = Setup { deaths: 1, stalls: true, naps: naps(1, 1), ..Setup::plain() };
    check(
        setup.stream(1, Kind::Plain).request(0, "GET", HOOK).reaches(&[Goal::Drained, Goal::Open]),
    );
}

#[test]
fn expiry() {
    let setup = Setup { naps: vec![(600, 1), (1_000, 1)], ..Setup::plain() }.stream(1, Kind::Plain);
    check(setup.request(0, "GET", "/prestop").request(0, "GET", "/ready").reaches(&[
        Goal::Expired,
        Goal::Open,
        Goal::ServingAgain,
    ]));
}

#[test]
fn clock() {
    let setup = Setup { wall_steps: 1, naps: naps(2, 0), ..Setup::plain() }.stream(1, Kind::Plain);
    check(setup.request(0, "POST", "/drain").reaches(&[Goal::Drained]));
}

#[test]
fn force() {
    let setup = Setup { naps: naps(1, 1), ..Setup::plain() }.stream(1, Kind::Plain);
    let setup = setup
        .request(0, "POST", "/force?reason=x")
        .request(0, "GET", "/ready")
        .request(1, "GET", "/ready");
    check(setup.reaches(&[Goal::Open, Goal::ServingAgain]));
}

#[test]
fn cancel() {
    let setup = Setup { naps: naps(1, 0), ..Setup::plain() }.stream(1, Kind::Plain);
    let setup =
        setup.request(0, "GET", HOOK).request(1, "DELETE", "/drain").request(0, "GET", "/ready");
    check(setup.reaches(&[Goal::Drained, Goal::Open, Goal::ServingAgain]));
}

#[test]
fn cancel_without_a_hook() {
    let setup = Setup { naps: naps(1, 1), ..Setup::plain() }.stream(1, Kind::Plain);
    let setup = setup
        .request(0, "POST", "/drain")
        .request(1, "DELETE", "/drain")
        .request(0, "GET", "/ready");
    check(setup.reaches(&[Goal::Drained, Goal::ServingAgain]));
}

#[test]
fn undo() {
    let setup = Setup { begin: "fail_health_checks", naps: naps(1, 0), ..Setup::plain() };
    let setup = setup
        .request(0, "POST", "/drain")
        .request(1, "DELETE", "/drain")
        .request(1, "POST", "/drain");
    check(setup.reaches(&[Goal::ServingAgain]));
}

#[test]
fn finish() {
    let setup = Setup { finish: "quit", naps: naps(2, 0), ..Setup::plain() }.stream(1, Kind::Plain);
    check(setup.request(0, "POST", "/drain").reaches(&[
        Goal::Drained,
        Goal::Passed,
        Goal::Refused,
    ]));
}

/// Its port closes, and may open again.
#[test]
fn agent_stops() {
    let naps = vec![(1_000, 1), (260, 5)];
    let setup = Setup { finish: "quit", has_agent: true, agent_turns: 2, naps, ..Setup::plain() };
    let setup = setup.stream(1, Kind::Plain);
    check(setup.reaches(&[Goal::Drained, Goal::Passed, Goal::Refused, Goal::ServingAgain]));
}

#[test]
fn agent_stays() {
    let setup = Setup { finish: "quit", has_agent: true, naps: naps(2, 0), ..Setup::plain() };
    check(setup.request(0, "POST", "/drain").reaches(&[Goal::Drained]));
}

#[test]
fn assumed() {
    let setup = Setup { exports: false, naps: naps(2, 0), ..Setup::plain() }.stream(1, Kind::Plain);
    check(setup.request(0, "GET", HOOK).reaches(&[Goal::Drained, Goal::Open]));
}
