//! Signals reach the command, and whoever waits ends by them.

use std::thread::sleep;
use std::time::Duration;

use crate::support::{Proxy, Running, run, signal, until};

const TELLS: &str = "for name in HUP INT QUIT TERM USR1 USR2 WINCH ALRM; do trap \"echo $name\" \
    $name; done; \
    trap 'exit 5' TTIN; echo ready; while :; do sleep 0.02; done";

#[test]
fn every_signal_reaches_the_command() {
    let proxy = Proxy::start();
    let mut running =
        Running::start(&mut proxy.exec(&["--end-proxy", "never"], ["bash", "-c", TELLS]));
    assert_eq!(running.line(), "ready");
    for name in ["USR1", "USR2", "WINCH", "ALRM", "HUP", "INT", "QUIT", "TERM", "USR1"] {
        running.signal(name);
        assert_eq!(running.line(), name);
    }
    let child = child_of(running.id());
    signal(child, "KILL");
    assert_eq!(running.end().0, Some(137));
}

#[test]
fn a_command_that_minds_no_signal_is_killed_by_it() {
    let proxy = Proxy::start();
    for (name, code) in [("TERM", 143), ("INT", 130), ("HUP", 129), ("QUIT", 131), ("USR1", 138)] {
        let mut running = Running::start(&mut proxy.exec(
            &["--end-proxy", "never"],
            ["sh", "-c", "ulimit -c 0; echo ready; exec sleep 60"],
        ));
        assert_eq!(running.line(), "ready");
        running.signal(name);
        let (seen, _, people) = running.end();
        assert_eq!(seen, Some(code), "{name}: {people}");
    }
}

#[test]
fn whoever_waits_for_the_proxy_can_be_ended() {
    let proxy = Proxy::start();
    proxy.answer("GET /ready", 503, "");
    for (name, code) in [("TERM", 143), ("INT", 130)] {
        let before = proxy.asked("GET /ready");
        let running = Running::start(&mut proxy.exec(&[], ["sh", "-c", "echo it ran"]));
        until("a look at the proxy", || proxy.asked("GET /ready") > before);
        running.signal(name);
        let (seen, out, _) = running.end();
        assert_eq!((seen, out.as_str()), (Some(code), ""));
    }
    assert_eq!(proxy.asked("POST /quitquitquit"), 0);
}

#[test]
fn whoever_waits_for_streams_can_be_ended() {
    let proxy = Proxy::start();
    proxy.in_flight(2);
    let running = Running::start(&mut proxy.exec(&[], ["sh", "-c", "exit 3"]));
    until("a look at the streams", || proxy.asked("GET /status") > 1);
    running.signal("TERM");
    let (seen, _, people) = running.end();
    assert_eq!(seen, Some(3), "the command's exit code wins: {people}");
    assert!(
        people.contains("2 outbound streams are in flight") && people.contains("asked to end"),
        "{people}"
    );
    assert_eq!(proxy.asked("POST /quitquitquit"), 0);
}

/// A stopped command is no ended one.
#[test]
fn a_stopped_command_goes_on() {
    let proxy = Proxy::start();
    let mut running =
        Running::start(&mut proxy.exec(&["--end-proxy", "never"], ["bash", "-c", TELLS]));
    assert_eq!(running.line(), "ready");
    let child = child_of(running.id());
    signal(child, "STOP");
    sleep(Duration::from_millis(300));
    assert!(running.is_running());
    signal(child, "CONT");
    signal(child, "TTIN");
    assert_eq!(running.end().0, Some(5));
}

fn child_of(pid: u32) -> u32 {
    let list = run(std::process::Command::new("pgrep").args(["-P", &pid.to_string()])).1;
    list.trim().parse().unwrap_or_else(|_| panic!("children of {pid}: {list}"))
}
