//! Proxies that are late, missing, silent, dying, busy, or keep a secret.

use std::fs;
use std::io::Write as _;
use std::net::TcpStream;
use std::process::Command;
use std::time::{Duration, Instant};

use kit::Outcome;
use kit::command::run;
use kit::process::Process;
use kit::wait::until;
use kit::wire::{free_port, local};

use crate::beside::support::{PROGRAM, Proxy, QUIT, scope};

const RAN: [&str; 3] = ["sh", "-c", "echo ran; exit 4"];

fn unused_address() -> String {
    format!("http://{}", local(free_port().unwrap()))
}

#[test]
fn a_late_proxy_is_awaited_and_ended_through_its_gate() -> Outcome {
    let proxy = Proxy::start()?;
    proxy.answer("GET /ready", 503, "");
    let mut running = Process::capture(&proxy.exec(&[], RAN))?;
    until("several looks", || proxy.received("GET /ready") >= 3)?;
    proxy.answer("GET /ready", 200, "");
    let output = running.finish()?.expect(4)?;
    assert_eq!((output.stdout.as_str(), output.stderr.as_str()), ("ran\n", ""));
    assert_eq!(proxy.received(QUIT), 1);
    Ok(())
}

#[test]
fn a_proxy_that_is_never_ready_is_reported_and_ended() -> Outcome {
    let proxy = Proxy::start()?;
    proxy.answer("GET /ready", 503, "");
    run(&mut proxy.exec(&["--ready-timeout", "500ms"], RAN))?
        .expect(2)?
        .stderr_contains("not ready after 500ms")?
        .stderr_contains("status 503")?
        .hides("ran\n")?;
    assert_eq!(proxy.received(QUIT), 1);
    Ok(())
}

#[test]
fn a_missing_proxy_is_accepted_only_with_its_option() -> Outcome {
    let proxy = Proxy::start()?;
    let unused = unused_address();
    let elsewhere = |options: &[&str]| {
        let mut command = Command::new(PROGRAM);
        command.args(["exec", "--ready-timeout", "700ms", "--gate", &unused]);
        run(command.args(options).arg("--").args(RAN))
    };
    elsewhere(&["--ready-url", &unused, "--end-proxy", "never"])?
        .expect(2)?
        .stderr_contains("no program listens there")?
        .hides("ran\n")?;
    elsewhere(&["--ready-url", &unused, "--no-proxy-ok=200ms"])?
        .expect(4)?
        .stdout_contains("ran\n")?
        .stderr_contains("there is no proxy")?;
    // A proxy that listens and is not ready is not missing.
    proxy.answer("GET /ready", 503, "");
    let ready = proxy.url("/ready");
    elsewhere(&["--ready-url", &ready, "--no-proxy-ok=0s", "--end-proxy", "never"])?.expect(2)?;
    Ok(())
}

#[test]
fn a_proxy_that_restarts_is_not_missing() -> Outcome {
    let proxy = Proxy::start()?;
    proxy.answer("GET /ready", 503, "");
    let limit = Duration::from_millis(1500);
    let options = ["--no-proxy-ok=1500ms", "--end-proxy", "never"];
    let mut running = Process::capture(&proxy.exec(&options, RAN))?;
    until("a look", || proxy.received("GET /ready") > 0)?;
    let began = Instant::now();
    until("the limit is over", || began.elapsed() > limit)?;
    assert!(running.exited()?.is_none());
    let gone = Instant::now();
    proxy.ends_at("GET /ready");
    running.finish()?.expect(4)?.stderr_contains("there is no proxy")?;
    assert!(gone.elapsed() >= limit, "ran {:?} after the proxy was gone", gone.elapsed());
    Ok(())
}

#[test]
fn a_watch_may_begin_before_its_gate() -> Outcome {
    let proxy = Proxy::start()?;
    proxy.answer("GET /status", 503, "");
    let mut command = Command::new(PROGRAM);
    command.args(["status", "--watch", "--interval", "100ms", "--gate", &proxy.url("")]);
    let mut running = Process::capture(&command)?;
    until("several looks", || proxy.received("GET /status") >= 3)?;
    proxy.has_status("drained", "x", "exact", vec![]);
    running.finish()?.expect(0)?.stderr_contains("cannot be asked")?;
    Ok(())
}

#[test]
fn the_proxy_stays_until_outbound_streams_have_ended() -> Outcome {
    let proxy = Proxy::start()?;
    proxy.in_flight(1);
    let mut running = Process::capture(&proxy.exec(&[], RAN))?;
    until("many looks at the streams", || proxy.received("GET /status") >= 15)?;
    assert!(running.exited()?.is_none());
    assert_eq!(proxy.received(QUIT), 0);
    proxy.in_flight(0);
    running.finish()?.expect(4)?.stderr_contains("1 outbound stream is in flight")?;
    assert_eq!(proxy.received(QUIT), 1);
    Ok(())
}

#[test]
fn waits_for_streams_and_the_gate_are_limited() -> Outcome {
    let proxy = Proxy::start()?;
    proxy.in_flight(3);
    let refused = r#"{"state": "serving", "reason": "streams are in flight", "holding": 3}"#;
    proxy.answer(QUIT, 503, refused);
    let options = ["--streams-timeout", "700ms", "--quit-timeout", "300ms"];
    run(&mut proxy.exec(&options, RAN))?
        .expect(4)?
        .stderr_contains("3 outbound streams are in flight; the proxy is ended")?
        .stderr_contains("was not ended")?;
    // With a quit URL that the proxy accepts.
    let end = proxy.url("/end");
    proxy.answer("POST /end", 200, "OK\n");
    run(&mut proxy.exec(&[&options[..], &["--quit-url", &end]].concat(), RAN))?.expect(4)?;
    assert_eq!((proxy.received("POST /end"), proxy.received(FORCE)), (1, 1));
    // With a gate that can be forced.
    proxy.answer(FORCE, 200, r#"{"state": "forced", "reason": "the gate is open", "holding": 3}"#);
    run(&mut proxy.exec(&options, RAN))?.expect(4)?;
    assert_eq!(proxy.received(FORCE), 2);
    Ok(())
}

/// The gate's VM may be restarting, or the gate waits for Envoy.
#[test]
fn a_gate_that_does_not_answer_at_once_is_not_bypassed() -> Outcome {
    let proxy = Proxy::start()?;
    let end = proxy.url("/end");
    proxy.answer("POST /end", 200, "OK\n");
    proxy.answer(QUIT, 503, "no gate\n");
    let mut running = Process::capture(&proxy.exec(&["--quit-url", &end], RAN))?;
    until("several tries", || proxy.received(QUIT) >= 3)?;
    let tries = proxy.received(QUIT);
    proxy.falls_silent_at(QUIT, Duration::from_secs(60));
    until("a try without an answer, and the next", || proxy.received(QUIT) >= tries + 2)?;
    proxy.ends_at(QUIT);
    running.finish()?.expect(4)?;
    assert_eq!(proxy.received("POST /end"), 0);
    Ok(())
}

const FORCE: &str = "POST /force?reason=laststream%20exec%3A%20the%20command%20has%20ended%2C%20\
                     and%20so%20has%20the%20time%20for%20its%20streams";

#[test]
fn a_count_that_is_not_exact_is_not_taken_for_zero() -> Outcome {
    let proxy = Proxy::start()?;
    proxy.has_status("serving", "", "leaking", vec![scope("outbound", 0)]);
    run(&mut proxy.exec(&["--streams-timeout", "600ms"], RAN))?
        .expect(4)?
        .stderr_contains("count is leaking")?;
    assert!(proxy.received("GET /status") >= 4);
    Ok(())
}

#[test]
fn a_missing_gate_or_scope_is_reported_and_the_proxy_is_ended() -> Outcome {
    let proxy = Proxy::start()?;
    proxy.ends_at("POST /end");
    let (end, unused) = (proxy.url("/end"), unused_address());
    let options = ["--quit-url", &end, "--gate-timeout", "300ms"];
    let mut command = Command::new(PROGRAM);
    command.args(["exec", "--gate", &unused, "--ready-url", &proxy.url("/ready")]);
    command.args(options).arg("--").args(RAN);
    run(&mut command)?.expect(4)?.stderr_contains(&format!("there is no gate at {unused}"))?;
    assert_eq!(proxy.received("POST /end"), 1);

    let proxy = Proxy::start()?;
    proxy.has_status("serving", "", "exact", vec![]);
    run(&mut proxy.exec(&[], RAN))?
        .expect(4)?
        .stderr_contains("does not wait for the scope `outbound`")?;
    assert_eq!(proxy.received(QUIT), 1);
    Ok(())
}

#[test]
fn a_proxy_that_has_gone_is_not_ended() -> Outcome {
    let proxy = Proxy::start()?;
    let folder = tempfile::tempdir()?;
    let gone = folder.path().join("gone");
    let script = "echo ready; while [ ! -e \"$0\" ]; do sleep 0.02; done; exit 6";
    let mut running = Process::capture(
        &proxy.exec(&["--gate-timeout", "300ms"], ["sh", "-c", script, gone.to_str().unwrap()]),
    )?;
    assert_eq!(running.next_line()?, "ready");
    proxy.ends_at("GET /die");
    TcpStream::connect(proxy.server.address)?.write_all(b"GET /die HTTP/1.1\r\n\r\n")?;
    until("the proxy is gone", || TcpStream::connect(proxy.server.address).is_err())?;
    fs::write(&gone, "")?;
    running.finish()?.expect(6)?.stderr_contains("there is nothing to end")?;
    Ok(())
}

#[test]
fn a_failed_command_may_leave_the_proxy() -> Outcome {
    let proxy = Proxy::start()?;
    assert_eq!(run(&mut proxy.exec(&["--end-proxy", "on-success"], RAN))?.code, Some(4));
    assert_eq!(proxy.received(QUIT), 0);
    assert_eq!(run(&mut proxy.exec(&["--end-proxy", "on-success"], ["true"]))?.code, Some(0));
    assert_eq!(proxy.received(QUIT), 1);
    Ok(())
}

#[test]
fn a_missing_command_ends_the_proxy_too() -> Outcome {
    let proxy = Proxy::start()?;
    assert_eq!(run(&mut proxy.exec(&[], ["no-such-command-anywhere"]))?.code, Some(127));
    assert_eq!(proxy.received(QUIT), 1);
    Ok(())
}

#[test]
fn wrong_arguments_run_nothing() -> Outcome {
    let proxy = Proxy::start()?;
    let folder = tempfile::tempdir()?;
    let secret = folder.path().join("secret");
    fs::write(&secret, "hunter2 and more\n")?;
    let cases: [(&[&str], i32, &str); 5] = [
        (&["--ready-timeout", "5"], 64, "a time with its unit"),
        (&["--quit-url", "https://x"], 64, "plain HTTP"),
        (&["--end-proxy", "perhaps"], 64, "on-success"),
        (&["--secret-file", "/no/such/file"], 2, "/no/such/file"),
        (&["--secret-file", secret.to_str().unwrap()], 2, "visible ASCII"),
    ];
    for (options, expected, words) in cases {
        let output = run(&mut proxy.exec(options, RAN))?.expect(expected)?;
        assert_eq!(output.stdout, "", "{options:?}");
        output.stderr_contains(words)?.hides("hunter2")?;
    }
    assert_eq!(run(&mut proxy.exec::<&str>(&[], []))?.code, Some(64));
    Ok(())
}
