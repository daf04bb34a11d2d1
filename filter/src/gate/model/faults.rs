//! Configurations with what goes wrong around the drain: workers that stand still, calls that fail
//! or are late, stores that another worker overtakes, and a gate that is replaced.

use laststream_drain::timing::DEAD_AFTER;

use super::setup::{Fault, Goal, Kind, QUIET, Setup};
use super::{HOOK, QUIT, check, naps};
use crate::config::wire::Scope;

const ALL: [Fault; 6] = [
    Fault::Refused,
    Fault::Unavailable,
    Fault::TimedOut,
    Fault::Reset,
    Fault::Empty,
    Fault::Foreign,
];

fn failing(failures: u8, quiet: u8) -> Setup {
    Setup { failures, faults: ALL.to_vec(), naps: naps(quiet, 0), ..Setup::plain() }
}

// === workers that stand still ===

/// Envoy has ended the stream, and the worker stands still before the filter's callback.
fn standing_still(naps: Vec<(u64, u8)>) -> Setup {
    Setup { closes_first: true, begun: 1, deadline: 20_000, naps, ..Setup::plain() }
        .stream(1, Kind::Plain)
}

#[test]
fn a_worker_stands_still_in_an_end() {
    let setup = standing_still(vec![(QUIET, 1), (4_500, 2)]);
    check(
        setup.stream(1, Kind::Plain).request(0, "GET", HOOK).reaches(&[Goal::Drained, Goal::Open]),
    );
}

#[test]
fn a_worker_stands_still_before_a_signal() {
    let setup = standing_still(vec![(1_000, 1), (8_000, 1)]);
    check(setup.request(0, "GET", "/status").request(0, "POST", QUIT).reaches(&[Goal::Passed]));
}

/// The count is healed while the worker stands still, and the worker then takes its stream from the
/// gauge once more.
#[test]
fn a_worker_outlives_its_death() {
    let setup = standing_still(vec![(QUIET, 4), (DEAD_AFTER.0, 1)]);
    check(setup.request(0, "GET", HOOK).request(0, "GET", HOOK).reaches(&[
        Goal::Healed,
        Goal::Repaired,
        Goal::Open,
    ]));
}

/// The worker of the stream is stopped inside a callback, while seconds pass.
#[test]
fn a_stall_inside_a_callback() {
    let setup = Setup { is_fine: true, stalls: true, naps: naps(0, 1), ..Setup::plain() };
    check(setup.stream(1, Kind::Plain).request(0, "POST", QUIT).reaches(&[Goal::Passed]));
}

/// The gate's own worker is stopped inside a callback, also just before a signal, until the latch
/// has opened.
#[test]
fn a_gate_stalls_behind_the_latch() {
    let setup = Setup { is_raced: true, stalls: true, naps: vec![(1_100, 2)], ..Setup::plain() };
    check(setup.stream(0, Kind::Plain).request(1, "POST", QUIT).reaches(&[Goal::Passed]));
}

// === calls ===

#[test]
fn failing_queries() {
    let setup = failing(2, 3).stream(1, Kind::Uncounted);
    check(setup.request(0, "GET", HOOK).reaches(&[Goal::Drained, Goal::Open, Goal::Expired]));
}

#[test]
fn failing_signals() {
    let setup = failing(2, 0).stream(1, Kind::Plain).stream(1, Kind::Uncounted);
    check(setup.request(0, "POST", QUIT).reaches(&[Goal::Passed]));
}

#[test]
fn failing_finish() {
    let setup = Setup { finish: "quit", ..failing(2, 2) }.stream(1, Kind::Plain);
    check(setup.request(0, "POST", "/drain").reaches(&[
        Goal::Drained,
        Goal::Passed,
        Goal::Refused,
    ]));
}

/// An operator's signal is under way when the drain reaches zero: its end must not open the latch
/// behind which the last call is made.
#[test]
fn a_signal_beside_the_last_call() {
    let setup = Setup { finish: "quit", naps: naps(1, 0), ..Setup::plain() };
    check(
        setup
            .stream(1, Kind::Plain)
            .request(0, "POST", "/drain")
            .request(0, "POST", "/drain_listeners")
            .reaches(&[Goal::Passed, Goal::Refused]),
    );
}

/// Calls are answered late, or never.
#[test]
fn slow_calls() {
    let setup = Setup { is_slow: true, naps: naps(3, 0), ..Setup::plain() };
    check(
        setup
            .stream(1, Kind::Plain)
            .stream(1, Kind::Uncounted)
            .request(0, "GET", HOOK)
            .reaches(&[Goal::Drained, Goal::Open]),
    );
}

#[test]
fn slow_signals() {
    let setup = Setup { is_slow: true, naps: vec![(QUIET, 1), (5_000, 1)], ..Setup::plain() };
    check(
        setup
            .stream(1, Kind::Plain)
            .request(0, "POST", QUIT)
            .reaches(&[Goal::Passed, Goal::Refused]),
    );
}

// === stores that another worker overtakes ===

#[test]
fn raced_cancel() {
    let setup = Setup { is_raced: true, finish: "quit", naps: naps(1, 0), ..Setup::plain() };
    check(
        setup
            .stream(1, Kind::Plain)
            .request(0, "POST", "/drain")
            .request(1, "DELETE", "/drain")
            .reaches(&[Goal::Passed, Goal::ServingAgain]),
    );
}

#[test]
fn raced_drain() {
    let setup = Setup { is_raced: true, naps: naps(1, 0), ..Setup::plain() };
    check(
        setup
            .stream(1, Kind::Plain)
            .request(0, "GET", HOOK)
            .request(1, "GET", HOOK)
            .reaches(&[Goal::Drained, Goal::Open]),
    );
}

// === gates ===

#[test]
fn gate_reload() {
    let setup = Setup { gate_reloads: 1, naps: naps(1, 0), ..Setup::plain() };
    check(
        setup.stream(1, Kind::Plain).request(0, "GET", HOOK).reaches(&[Goal::Drained, Goal::Open]),
    );
}

#[test]
fn gate_reload_during_a_signal() {
    let setup = Setup { gate_reloads: 1, naps: Vec::new(), ..Setup::plain() };
    check(
        setup
            .stream(1, Kind::Plain)
            .request(0, "POST", QUIT)
            .reaches(&[Goal::Passed, Goal::Refused]),
    );
}

#[test]
fn gate_reload_during_the_last_call() {
    let setup = Setup { gate_reloads: 1, finish: "quit", naps: naps(1, 0), ..Setup::plain() };
    check(
        setup
            .stream(1, Kind::Plain)
            .request(0, "POST", "/drain")
            .reaches(&[Goal::Passed, Goal::Refused]),
    );
}

/// The last call of one gate ends the process under the streams of the other one.
#[test]
fn quit_beside_another_gate() {
    let setup = Setup {
        gates: vec![Scope::Inbound, Scope::Outbound],
        finish: "quit",
        naps: naps(1, 0),
        ..Setup::plain()
    };
    check(
        setup
            .stream_of(1, Scope::Outbound)
            .request_of(0, 0, "POST", "/drain")
            .reaches(&[Goal::Drained, Goal::Passed]),
    );
}

#[test]
fn a_quit_signal_beside_another_gate() {
    let setup =
        Setup { gates: vec![Scope::Inbound, Scope::Outbound], naps: Vec::new(), ..Setup::plain() };
    check(
        setup.stream_of(1, Scope::Outbound).request_of(0, 0, "POST", QUIT).reaches(&[Goal::Passed]),
    );
}

/// The VM of a worker dies, and its stream of the other scope goes on without the filter.
#[test]
fn quit_beside_a_death_in_another_scope() {
    let setup = Setup {
        gates: vec![Scope::Inbound, Scope::Outbound],
        finish: "quit",
        deadline: 20_000,
        deaths: 1,
        begun: 1,
        naps: vec![(QUIET, 2), (DEAD_AFTER.0, 1)],
        ..Setup::plain()
    };
    check(
        setup
            .stream_of(1, Scope::Outbound)
            .request_of(0, 0, "POST", "/drain")
            .reaches(&[Goal::Drained, Goal::Passed]),
    );
}
