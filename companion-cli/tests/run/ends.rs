//! The end: asked for once, twice, or by nobody.

use std::os::unix::fs::PermissionsExt as _;
use std::thread;
use std::time::{Duration, Instant};

use laststream::local::envoy::{NEWEST, Wanted};
use laststream::progress::Silent;
use rustix::process::{Signal, kill_process};

use crate::client::Client;
use crate::support::{Run, fails_when, until};

/// A request that is in flight, and its outcome.
fn in_flight(run: &Run, path: &'static str) -> thread::JoinHandle<std::io::Result<(u16, String)>> {
    let at = run.place("listener");
    let request = thread::spawn(move || Client::new(at).get(path, ""));
    run.until_in_flight(1);
    request
}

#[test]
fn a_request_in_flight_is_finished() {
    for terminate in [false, true] {
        let mut run = Run::start(&[]);
        let request = in_flight(&run, "/delay/3");
        if terminate {
            run.signal(Signal::TERM)
        } else {
            run.interrupt()
        }
        run.until_it_says("waiting: 1 stream is in flight");
        assert_eq!(request.join().unwrap().unwrap().0, 200);
        run.ended().expect(0).says("no stream was in flight when the gate let Envoy end");
    }
}

#[test]
fn asking_again_ends_it_at_once() {
    let mut run = Run::start(&[]);
    let request = in_flight(&run, "/delay/60");
    run.interrupt();
    run.until_it_says("waiting: 1 stream");
    thread::sleep(Duration::from_secs(1)); // sooner would be an echo
    let asked = Instant::now();
    run.interrupt();
    run.ended().expect(1).says("cut now: 1");
    assert!(asked.elapsed() < Duration::from_secs(20), "the deadline was not waited for");
    assert!(request.join().unwrap().is_err());
}

#[test]
fn a_start_can_be_stopped() {
    let folder = tempfile::tempdir().unwrap();
    let slow = folder.path().join("envoy");
    // Envoy in everything but that it never listens.
    let real = laststream::local::envoy::find_or_get(
        &Wanted { path: None, ..Wanted::version(NEWEST) },
        &Silent,
    )
    .unwrap()
    .binary;
    let text = format!(
        "#!/bin/sh\ncase \"$*\" in *admin-address-path*) exec sleep 600 ;; esac\nexec '{}' \"$@\"",
        real.display()
    );
    std::fs::write(&slow, text).unwrap();
    std::fs::set_permissions(&slow, std::fs::Permissions::from_mode(0o755)).unwrap();
    let ended = fails_when(
        folder.path(),
        &[],
        &[("LASTSTREAM_ENVOY", slow.to_str().unwrap())],
        "starting Envoy",
        Signal::INT,
    );
    ended.expect(0).says("ended before it was ready");
}

/// `make`, `npm` and others pass Ctrl-C on to a child that has heard it already.
#[test]
fn an_echo_of_the_first_time_is_no_second_time() {
    let mut run = Run::start(&[]);
    let request = in_flight(&run, "/delay/3");
    run.interrupt();
    run.signal(Signal::TERM);
    run.signal(Signal::INT);
    assert_eq!(request.join().unwrap().unwrap().0, 200);
    run.ended().expect(0);
}

#[test]
fn long_lived_streams_that_hold_nothing_are_told() {
    let folder = tempfile::tempdir().unwrap();
    let policy = "drain: {long_lived: exempt}\ncount: {long_lived: {paths: [{prefix: /delay/}]}}";
    std::fs::write(folder.path().join("policy.yaml"), policy).unwrap();
    let mut run = Run::start_in(folder, &["--policy", "policy.yaml"]);
    let at = run.place("listener");
    let request = thread::spawn(move || Client::new(at).get("/delay/60", ""));
    until(
        "the stream",
        || run.status().to_string(),
        || run.status()["scopes"][0]["long_lived"] == 1,
    );
    run.interrupt();
    run.ended().expect(0).says("does not wait for: 1");
    assert!(request.join().unwrap().is_err());
}

#[test]
fn the_deadline_of_the_policy_is_the_longest_wait() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("policy.yaml"), "drain: {deadline: 4s}").unwrap();
    let mut run = Run::start_in(folder, &["--policy", "policy.yaml"]);
    let request = in_flight(&run, "/delay/60");
    run.interrupt();
    run.ended().expect(1).says("cut now: 1").says("deadline");
    assert!(request.join().unwrap().is_err());
}

#[test]
fn clients_that_do_not_stop_are_told() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("policy.yaml"), "drain: {deadline: 5s}").unwrap();
    let mut run = Run::start_in(folder, &["--policy", "policy.yaml"]);
    let at = run.place("listener");
    let busy = thread::spawn(move || while Client::new(at).get("/", "").is_ok() {});
    run.interrupt();
    run.ended().expect(1).says("requests that came after the drain began: ").says("deadline");
    busy.join().unwrap();
}

#[test]
fn a_gate_that_ends_envoy_itself_is_fine() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(
        folder.path().join("policy.yaml"),
        "placement: {envoy: {}}\ndrain: {finish: quit}",
    )
    .unwrap();
    let mut run = Run::start_in(folder, &["--policy", "policy.yaml"]);
    run.interrupt();
    run.ended().expect(0);
}

#[test]
fn an_envoy_that_is_killed_is_told() {
    let mut run = Run::start(&[]);
    kill_process(run.envoy(), Signal::KILL).unwrap();
    let log = run.log().display().to_string();
    run.ended()
        .expect(2)
        .says("Envoy has ended by itself")
        .says("signal: 9")
        .says(&log)
        .says("starting workers");
}

#[cfg(target_os = "linux")]
#[test]
fn envoy_does_not_outlive_a_killed_command() {
    let run = Run::start(&[]);
    run.signal(Signal::KILL);
    run.until_envoy_is_gone();
}

/// A drain begins early, and the gate is drained; then a request comes. What is said last must be
/// true of that request, too.
#[test]
fn the_last_words_are_true_after_an_early_drain() {
    let mut run = Run::start(&[]);
    Client::new(run.place("gate")).get("/prestop", "").unwrap();
    until("drained", || run.status().to_string(), || run.status()["state"] == "drained");
    let at = run.place("listener");
    let request = thread::spawn(move || Client::new(at).get("/delay/4", ""));
    until("a stream", || run.status().to_string(), || run.status()["scopes"][0]["in_flight"] == 1);
    run.interrupt();
    let ended = run.ended();
    let was_answered = request.join().unwrap().is_ok_and(|(status, _)| status == 200);
    assert_eq!(
        ended.code == Some(0),
        was_answered,
        "exit code and request: {was_answered}, {}",
        ended.people
    );
    assert_eq!(
        ended.people.contains("no stream was in flight"),
        was_answered,
        "last words and request: {was_answered}, {}",
        ended.people
    );
}
