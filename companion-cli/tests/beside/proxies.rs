//! Proxies that are late, missing, silent, dying, busy, or keep a secret.

use std::fs;
use std::net::TcpListener;
use std::time::Instant;

use crate::support::{Proxy, Running, SOON, run, until};

const RAN: [&str; 3] = ["sh", "-c", "echo ran; exit 4"];

fn nobody() -> String {
    let address = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    format!("http://{address}")
}

#[test]
fn waits_for_a_late_proxy_and_ends_it_through_its_gate() {
    let proxy = Proxy::start();
    proxy.answer("GET /ready", 503, "");
    proxy.ends_at("POST /quitquitquit");
    let running = Running::start(&mut proxy.exec(&[], RAN));
    until("several looks", || proxy.asked("GET /ready") >= 3);
    proxy.answer("GET /ready", 200, "");
    let (code, out, people) = running.end();
    assert_eq!((code, out.as_str(), people.as_str()), (Some(4), "ran\n", ""));
    assert_eq!(proxy.asked("POST /quitquitquit"), 1);
}

#[test]
fn a_proxy_that_is_never_ready_is_told_and_ended() {
    let proxy = Proxy::start();
    proxy.answer("GET /ready", 503, "");
    proxy.ends_at("POST /quitquitquit");
    let (code, out, people) = run(&mut proxy.exec(&["--ready-timeout", "500ms"], RAN));
    assert_eq!((code, out.as_str()), (Some(2), ""));
    assert!(people.contains("not ready after 500ms") && people.contains("status 503"), "{people}");
    assert_eq!(proxy.asked("POST /quitquitquit"), 1);
}

#[test]
fn no_proxy_is_fine_only_where_that_is_said() {
    let proxy = Proxy::start();
    let nobody = nobody();
    let elsewhere = |options: &[&str]| {
        let mut command = std::process::Command::new(crate::support::PROGRAM);
        run(command
            .args(["exec", "--ready-timeout", "700ms", "--gate", &nobody])
            .args(options)
            .arg("--")
            .args(RAN))
    };
    let (code, out, people) = elsewhere(&["--ready-url", &nobody, "--end-proxy", "never"]);
    assert_eq!((code, out.as_str()), (Some(2), ""), "{people}");
    assert!(people.contains("no program listens there"), "{people}");
    let (code, out, people) = elsewhere(&["--ready-url", &nobody, "--no-proxy-ok=200ms"]);
    assert_eq!((code, out.as_str()), (Some(4), "ran\n"), "{people}");
    assert!(people.contains("there is no proxy"), "{people}");
    // One that is there and not ready is there.
    proxy.answer("GET /ready", 503, "");
    let (code, ..) = elsewhere(&[
        "--ready-url",
        &proxy.url("/ready"),
        "--no-proxy-ok=0s",
        "--end-proxy",
        "never",
    ]);
    assert_eq!(code, Some(2));
}

#[test]
fn holds_until_outbound_streams_have_ended() {
    let proxy = Proxy::start();
    proxy.ends_at("POST /quitquitquit");
    proxy.in_flight(1);
    let mut running = Running::start(&mut proxy.exec(&[], RAN));
    until("many looks at the streams", || proxy.asked("GET /status") >= 15);
    assert!(running.is_running());
    assert_eq!(proxy.asked("POST /quitquitquit"), 0);
    proxy.in_flight(0);
    let (code, _, people) = running.end();
    assert_eq!(code, Some(4));
    assert!(people.contains("1 outbound stream is in flight"), "{people}");
    assert_eq!(proxy.asked("POST /quitquitquit"), 1);
}

#[test]
fn never_waits_for_ever() {
    let proxy = Proxy::start();
    proxy.in_flight(3);
    proxy.answer(
        "POST /quitquitquit",
        503,
        r#"{"state": "serving", "reason": "streams are in flight", "holding": 3}"#,
    );
    let began = Instant::now();
    let options = ["--streams-timeout", "700ms", "--quit-timeout", "300ms"];
    let (code, _, people) = run(&mut proxy.exec(&options, RAN));
    assert_eq!(code, Some(4));
    assert!(people.contains("3 outbound streams are in flight; the proxy is ended"), "{people}");
    assert!(
        people.contains("was not ended") && people.contains("streams are in flight"),
        "{people}"
    );
    assert!(began.elapsed() < SOON);
    // With a signal of its own that it takes.
    let end = proxy.url("/end");
    proxy.answer("POST /end", 200, "OK\n");
    let (code, ..) = run(&mut proxy.exec(&[&options[..], &["--quit-url", &end]].concat(), RAN));
    assert_eq!((code, proxy.asked("POST /end"), proxy.asked(FORCE)), (Some(4), 1, 1));
    // With a gate that can be forced.
    proxy.answer(FORCE, 200, r#"{"state": "forced", "reason": "the gate is open", "holding": 3}"#);
    let (code, _, people) = run(&mut proxy.exec(&options, RAN));
    assert_eq!((code, proxy.asked(FORCE)), (Some(4), 2), "{people}");
}

const FORCE: &str = "POST /force?reason=laststream%20exec:%20the%20command%20has%20ended%2C%20and%20so%20has%20the%20time%20for%20its%20streams";

#[test]
fn a_count_that_is_not_exact_is_no_zero() {
    let proxy = Proxy::start();
    proxy.ends_at("POST /quitquitquit");
    let scope = r#"{"scope": "outbound", "in_flight": 0, "begun": 7}"#;
    let body = format!(
        r#"{{"state": "serving", "reason": "", "count": "leaking", "holding": 0, "scopes": [{scope}]}}"#
    );
    proxy.answer("GET /status", 200, &body);
    let (code, _, people) = run(&mut proxy.exec(&["--streams-timeout", "600ms"], RAN));
    assert_eq!(code, Some(4));
    assert!(people.contains("count is leaking"), "{people}");
    assert!(proxy.asked("GET /status") >= 4);
}

#[test]
fn without_a_gate_or_its_scope_it_says_so_and_goes_on() {
    let proxy = Proxy::start();
    proxy.ends_at("POST /end");
    let (end, nobody) = (proxy.url("/end"), nobody());
    let options = ["--quit-url", &end, "--gate-timeout", "300ms"];
    let mut command = std::process::Command::new(crate::support::PROGRAM);
    command
        .args(["exec", "--gate", &nobody, "--ready-url", &proxy.url("/ready")])
        .args(options)
        .arg("--")
        .args(RAN);
    let (code, _, people) = run(&mut command);
    assert_eq!((code, proxy.asked("POST /end")), (Some(4), 1), "{people}");
    assert!(people.contains(&format!("there is no gate at {nobody}")), "{people}");

    let proxy = Proxy::start();
    proxy.ends_at("POST /quitquitquit");
    proxy.answer(
        "GET /status",
        200,
        r#"{"state": "serving", "reason": "", "count": "exact", "holding": 0, "scopes": []}"#,
    );
    let (code, _, people) = run(&mut proxy.exec(&[], RAN));
    assert_eq!((code, proxy.asked("POST /quitquitquit")), (Some(4), 1), "{people}");
    assert!(people.contains("does not wait for the scope `outbound`"), "{people}");
}

#[test]
fn a_proxy_that_has_gone_is_not_ended() {
    let proxy = Proxy::start();
    let mut running = Running::start(&mut proxy.exec(
        &["--gate-timeout", "300ms"],
        ["sh", "-c", "echo ready; read line </dev/null; sleep 1; exit 6"],
    ));
    assert_eq!(running.line(), "ready");
    proxy.ends_at("GET /die");
    let _ = std::net::TcpStream::connect(proxy.address)
        .map(|mut stream| std::io::Write::write_all(&mut stream, b"GET /die HTTP/1.1\r\n\r\n"));
    let (code, _, people) = running.end();
    assert_eq!(code, Some(6));
    assert!(people.contains("there is nothing to end"), "{people}");
}

#[test]
fn a_failed_command_may_leave_the_proxy() {
    let proxy = Proxy::start();
    assert_eq!(run(&mut proxy.exec(&["--end-proxy", "on-success"], RAN)).0, Some(4));
    assert_eq!(proxy.asked("POST /quitquitquit"), 0);
    proxy.ends_at("POST /quitquitquit");
    assert_eq!(run(&mut proxy.exec(&["--end-proxy", "on-success"], ["true"])).0, Some(0));
    assert_eq!(proxy.asked("POST /quitquitquit"), 1);
}

#[test]
fn a_command_that_is_not_there_ends_the_proxy_too() {
    let proxy = Proxy::start();
    proxy.ends_at("POST /quitquitquit");
    assert_eq!(run(&mut proxy.exec(&[], ["no-such-command-anywhere"])).0, Some(127));
    assert_eq!(proxy.asked("POST /quitquitquit"), 1);
}

#[test]
fn wrong_arguments_run_nothing() {
    let proxy = Proxy::start();
    let folder = tempfile::tempdir().unwrap();
    let secret = folder.path().join("secret");
    fs::write(&secret, "hunter2 and more\n").unwrap();
    let cases: [(&[&str], i32, &str); 5] = [
        (&["--ready-timeout", "5"], 64, "a time with its unit"),
        (&["--quit-url", "https://x"], 64, "plain HTTP"),
        (&["--end-proxy", "perhaps"], 64, "on-success"),
        (&["--secret-file", "/no/such/file"], 2, "/no/such/file"),
        (&["--secret-file", secret.to_str().unwrap()], 2, "visible ASCII"),
    ];
    for (options, expected, words) in cases {
        let (code, out, people) = run(&mut proxy.exec(options, RAN));
        assert_eq!((code, out.as_str()), (Some(expected), ""), "{options:?}: {people}");
        assert!(people.contains(words) && !people.contains("hunter2"), "{people}");
    }
    assert_eq!(run(&mut proxy.exec::<&str>(&[], [])).0, Some(64));
}
