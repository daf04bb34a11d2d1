//! Signals reach the command, and all waits end by them.

use std::thread::sleep;
use std::time::Duration;

use kit::process::Process;
use kit::wait::until;
use kit::{Context as _, Outcome};

use crate::beside::support::{Proxy, QUIT, child_of, signal};

const TELLS: &str = "for name in HUP INT QUIT TERM USR1 USR2 WINCH ALRM URG \
    IO PROF VTALRM XCPU XFSZ; do trap \"echo $name\" $name; done; \
    trap 'exit 5' TTIN; echo ready; while :; do sleep 0.02; done";

#[test]
fn every_signal_reaches_the_command() -> Outcome {
    let proxy = Proxy::start()?;
    let mut running = proxy.started("bash", TELLS)?;
    for name in [
        "USR1", "USR2", "WINCH", "ALRM", "URG", "IO", "PROF", "VTALRM", "XCPU", "XFSZ", "HUP",
        "INT", "QUIT", "TERM", "USR1",
    ] {
        signal(running.pid(), name)?;
        assert_eq!(running.next_line()?, name);
    }
    let child = child_of(running.pid())?;
    signal(child, "KILL")?;
    assert_eq!(running.finish()?.code, Some(137));
    Ok(())
}

#[test]
fn a_command_without_signal_handlers_is_killed_by_a_signal() -> Outcome {
    let proxy = Proxy::start()?;
    for (name, code) in [("TERM", 143), ("INT", 130), ("HUP", 129), ("QUIT", 131), ("USR1", 138)] {
        let mut running = proxy.started("sh", "ulimit -c 0; echo ready; exec sleep 60")?;
        signal(running.pid(), name)?;
        running.finish()?.expect(code).with_context(|| name.to_owned())?;
    }
    Ok(())
}

#[test]
fn a_wait_for_the_proxy_can_be_ended() -> Outcome {
    let proxy = Proxy::start()?;
    proxy.answer("GET /ready", 503, "");
    for (name, code) in [("TERM", 143), ("INT", 130)] {
        let before = proxy.received("GET /ready");
        let mut running = Process::capture(&proxy.exec(&[], ["sh", "-c", "echo it ran"]))?;
        until("a look at the proxy", || proxy.received("GET /ready") > before)?;
        signal(running.pid(), name)?;
        assert_eq!(running.finish()?.expect(code)?.stdout, "");
    }
    assert_eq!(proxy.received(QUIT), 0);
    Ok(())
}

#[test]
fn a_wait_for_streams_can_be_ended() -> Outcome {
    let proxy = Proxy::start()?;
    proxy.in_flight(2);
    let mut running = Process::capture(&proxy.exec(&[], ["sh", "-c", "exit 3"]))?;
    until("a look at the streams", || proxy.received("GET /status") > 1)?;
    signal(running.pid(), "TERM")?;
    running
        .finish()?
        .expect(3)?
        .stderr_contains("2 outbound streams are in flight")?
        .stderr_contains("asked to end")?;
    assert_eq!(proxy.received(QUIT), 0);
    Ok(())
}

/// A stopped command has not ended.
#[test]
fn a_stopped_command_goes_on() -> Outcome {
    let proxy = Proxy::start()?;
    let mut running = proxy.started("bash", TELLS)?;
    let child = child_of(running.pid())?;
    signal(child, "STOP")?;
    sleep(Duration::from_millis(300));
    assert!(running.exited()?.is_none());
    signal(child, "CONT")?;
    signal(child, "TTIN")?;
    assert_eq!(running.finish()?.code, Some(5));
    Ok(())
}
