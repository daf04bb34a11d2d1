//! The end of a run: requested once, twice, or not at all.

use std::thread;
use std::time::Duration;

use kit::Outcome;
use kit::h1::Response;
use kit::user::write_script;
use laststream_base::progress::Silent;
use laststream_local::envoy::{NEWEST, Wanted};
use rustix::process::{Signal, kill_process};

use crate::run::support::{Run, fails_when_interrupted, get};

type Request = thread::JoinHandle<Outcome<Response>>;

/// A request that is in flight, and its outcome.
fn in_flight(run: &Run, path: &'static str) -> Outcome<Request> {
    let request = request(run, path);
    run.wait_for_in_flight(1)?;
    Ok(request)
}

fn request(run: &Run, path: &'static str) -> Request {
    let listener = run.place("listener");
    thread::spawn(move || get(listener, path))
}

#[test]
fn a_request_in_flight_is_finished() -> Outcome {
    for terminate in [false, true] {
        let mut run = Run::start(&[])?;
        let request = in_flight(&run, "/delay/3")?;
        if terminate {
            run.signal(Signal::TERM)?
        } else {
            run.interrupt()?
        }
        run.wait_for_stderr("waiting: 1 stream is in flight")?;
        assert_eq!(request.join().unwrap()?.status, 200);
        run.finish()?
            .expect(0)?
            .stderr_contains("no stream was in flight when the gate let Envoy end")?;
        assert!(!run.log().exists(), "the temporary folder is not needed any more");
    }
    Ok(())
}

#[test]
fn a_quit_signal_ends_a_run_without_a_drain() -> Outcome {
    let mut run = Run::start(&[])?;
    let _request = in_flight(&run, "/delay/60")?;
    run.signal(Signal::QUIT)?;
    assert_eq!(run.finish()?.code, None, "a signal ended it");
    Ok(())
}

#[test]
fn a_second_signal_ends_a_run_at_once() -> Outcome {
    let mut run = Run::start(&[])?;
    let request = in_flight(&run, "/delay/60")?;
    run.interrupt()?;
    run.wait_for_stderr("waiting: 1 stream")?;
    thread::sleep(Duration::from_secs(1)); // sooner would be an echo
    run.interrupt()?;
    run.finish()?.expect(1)?.stderr_contains("cut now: 1 (HTTP/1.1 gateway, ")?;
    assert!(request.join().unwrap().is_err());
    Ok(())
}

#[test]
fn a_start_can_be_stopped() -> Outcome {
    let folder = tempfile::tempdir()?;
    let slow = folder.path().join("envoy");
    // A script that acts as Envoy, but never listens.
    let real = laststream_local::envoy::find_or_get(
        &Wanted { path: None, ..Wanted::version(NEWEST) },
        &Silent,
    )
    .unwrap()
    .binary;
    let text = format!(
        "case \"$*\" in *admin-address-path*) exec sleep 600 ;; esac\nexec '{}' \"$@\"",
        real.display()
    );
    write_script(&slow, &text)?;
    let variables = [("LASTSTREAM_ENVOY", slow.to_str().unwrap())];
    fails_when_interrupted(folder.path(), &variables, "starting Envoy")?
        .expect(0)?
        .stderr_contains("interrupted before Envoy was ready")?;
    let mut left = std::fs::read_dir(folder.path())?.filter_map(Result::ok);
    let is_of_run = |name: std::ffi::OsString| name.to_string_lossy().contains("laststream-run-");
    assert!(!left.any(|entry| is_of_run(entry.file_name())), "the temporary folder");
    Ok(())
}

#[test]
fn a_hang_up_that_is_ignored_stays_ignored() -> Outcome {
    let mut run = Run::start_with_nohup()?;
    run.signal(Signal::HUP)?;
    thread::sleep(Duration::from_secs(1));
    assert_eq!(run.status()?["state"], "serving");
    assert!(!run.stderr().contains("draining"), "{}", run.stderr());
    run.interrupt()?;
    run.finish()?.expect(0)?;
    Ok(())
}

/// `make`, `npm` and others pass Ctrl-C on to a child that has received it already.
#[test]
fn an_echo_of_the_first_signal_is_no_second_signal() -> Outcome {
    let mut run = Run::start(&[])?;
    let request = in_flight(&run, "/delay/3")?;
    run.interrupt()?;
    run.signal(Signal::TERM)?;
    run.signal(Signal::INT)?;
    assert_eq!(request.join().unwrap()?.status, 200);
    run.finish()?.expect(0)?;
    Ok(())
}

#[test]
fn exempt_long_lived_streams_are_reported() -> Outcome {
    let policy = "drain: {long_lived: exempt}\ncount: {long_lived: {paths: [{prefix: /delay/}]}}";
    let mut run = Run::start_with_policy(policy, &[])?;
    let request = request(&run, "/delay/60");
    run.wait_for_status("/scopes/0/long_lived", 1)?;
    run.interrupt()?;
    run.finish()?.expect(0)?.stderr_contains("does not wait for: 1")?;
    assert!(request.join().unwrap().is_err());
    Ok(())
}

#[test]
fn the_deadline_of_the_policy_is_the_longest_wait() -> Outcome {
    let policy = "drain: {deadline: 4s}\nstreams: {show: path}";
    let mut run = Run::start_with_policy(policy, &[])?;
    let request = in_flight(&run, "/delay/60")?;
    run.interrupt()?;
    let ended = run.finish()?.expect(1)?.stderr_contains("deadline")?;
    ended.stderr_contains("cut now: 1 (GET ")?.stderr_contains("/delay/60, ")?;
    assert!(run.log().exists(), "the message names it");
    assert!(request.join().unwrap().is_err());
    Ok(())
}

#[test]
fn clients_that_do_not_stop_are_reported() -> Outcome {
    let mut run = Run::start_with_policy("drain: {deadline: 5s}", &[])?;
    let at = run.place("listener");
    let busy = thread::spawn(move || while get(at, "/").is_ok() {});
    run.interrupt()?;
    run.finish()?
        .expect(1)?
        .stderr_contains("requests that came after the drain began: ")?
        .stderr_contains("deadline")?;
    busy.join().unwrap();
    Ok(())
}

#[test]
fn a_gate_that_ends_envoy_itself_is_fine() -> Outcome {
    let mut run = Run::start_with_policy("placement: {envoy: {}}\ndrain: {finish: quit}", &[])?;
    run.interrupt()?;
    run.finish()?.expect(0)?;
    Ok(())
}

#[test]
fn a_killed_envoy_is_reported() -> Outcome {
    let mut run = Run::start(&[])?;
    kill_process(run.envoy(), Signal::KILL).unwrap();
    let log = run.log().display().to_string();
    run.finish()?
        .expect(2)?
        .stderr_contains("Envoy has ended by itself")?
        .stderr_contains("signal: 9")?
        .stderr_contains(&log)?
        .stderr_contains("starting workers")?;
    Ok(())
}

#[cfg(target_os = "linux")]
#[test]
fn envoy_does_not_outlive_a_killed_command() -> Outcome {
    let mut run = Run::start(&[])?;
    run.signal(Signal::KILL)?;
    run.until_envoy_is_gone()?;
    Ok(())
}

/// A drain begins early, and the gate is drained; then a request comes. The last message must be
/// true of that request, too.
#[test]
fn the_last_message_is_true_after_an_early_drain() -> Outcome {
    let mut run = Run::start(&[])?;
    get(run.place("gate"), "/prestop")?;
    run.wait_for_status("/state", "drained")?;
    let request = request(&run, "/delay/4");
    run.wait_for_status("/scopes/0/in_flight", 1)?;
    run.interrupt()?;
    let ended = run.finish()?;
    let was_answered = request.join().unwrap().is_ok_and(|response| response.status == 200);
    let claims = [ended.code == Some(0), ended.stderr.contains("no stream was in flight")];
    assert_eq!(claims, [was_answered; 2], "exit code and last words: {}", ended.stderr);
    Ok(())
}
