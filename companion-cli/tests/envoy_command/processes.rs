//! Several processes at once, and processes that are killed in the middle. The others are the
//! command line itself.

use crate::server::{Server, pinned, published};
use crate::support::{Heard, Home, envoy, origin};
use kit::command::run;
use kit::fake_server::Fault;
use kit::process::Process;
use kit::wait::until;
use kit::{Context as _, Outcome};
use laststream::local::envoy::{Origin, find_or_get};
use rustix::process::{Pid, Signal, test_kill_process};
use std::os::unix::process::ExitStatusExt as _;
use std::process::Command;
use std::time::Duration;

fn start(home: &Home, server: &Server) -> Process {
    let mut command = Command::new("env");
    command.args(["-i", &format!("HOME={}", home.path("").display())]);
    command.arg(format!("PATH={}", home.path("bin").display()));
    command.arg(format!("LASTSTREAM_CACHE={}", home.path("cache").display()));
    command.arg(format!("LASTSTREAM_ENVOY_MIRROR={}", server.url));
    command.args([env!("CARGO_BIN_EXE_laststream"), "envoy", "get", "1.40.0"]);
    Process::capture(command.args(["--sha256", &server.sha256])).unwrap()
}

/// The standard error of a process, which must succeed and print the path of the binary.
fn finished(home: &Home, mut process: Process) -> Outcome<String> {
    let output = process.finish()?.expect(0)?;
    let binary = home.path("cache/envoy/1.40.0/envoy");
    assert_eq!(output.stdout.trim(), binary.to_str().unwrap());
    Ok(output.stderr)
}

/// A server that takes its time for the first download of the binary.
fn slow(wait: Duration) -> Server {
    Server::start(move |path, before| {
        if path.ends_with("x86_64") && before == 0 {
            std::thread::sleep(wait);
        }
        published(path, envoy("1.40.0").as_bytes())
    })
}

#[test]
fn one_of_several_processes_downloads_and_all_use_its_file() -> Outcome {
    let (home, server) = (Home::new(), slow(Duration::from_millis(300)));
    let children: Vec<Process> = (0..4).map(|_| start(&home, &server)).collect();
    let heard: Vec<String> =
        children.into_iter().map(|child| finished(&home, child)).collect::<Outcome<_>>()?;
    assert_eq!(
        heard.iter().filter(|text| text.contains("fetching Envoy 1.40.0")).count(),
        1,
        "{heard:?}"
    );
    assert_eq!(server.downloads(), 1);
    assert_eq!(home.slot(), ["envoy", "envoy.json", "lock"]);
    Ok(())
}

#[test]
fn a_process_that_waits_for_another_reports_it() -> Outcome {
    let (home, server) = (Home::new(), slow(Duration::from_secs(3)));
    let other = start(&home, &server);
    until("the other process downloads", || server.downloads() == 1)?;
    let heard = Heard::default();
    assert_eq!(find_or_get(&pinned(&home, &server), &heard).unwrap().origin, Origin::Cache);
    assert_eq!(heard.all()[0], "waiting for another process that fetches Envoy 1.40.0");
    finished(&home, other)?;
    Ok(())
}

#[test]
fn a_killed_process_leaves_no_lock_and_no_usable_file() -> Outcome {
    let home = Home::new();
    // Half of the body, then silence: the other process is in the middle of writing.
    let server = Server::start(|path, before| {
        let reply = published(path, envoy("1.40.0").as_bytes());
        if path.ends_with("x86_64") && before == 0 {
            return Err(Fault::Part(reply?, 200_000, Duration::from_secs(20)));
        }
        reply
    });
    let mut other = start(&home, &server);
    let leftover = || {
        let part = home.path("cache/envoy/1.40.0");
        let parts = std::fs::read_dir(part).into_iter().flatten().flatten();
        parts.filter(|entry| entry.file_name().to_string_lossy().starts_with("part-")).find_map(
            |entry| {
                let half = entry.path().join("envoy");
                half.metadata().is_ok_and(|about| about.len() > 0).then_some(half)
            },
        )
    };
    until("something is written", || leftover().is_some())?;
    other.kill()?;
    assert!(leftover().is_some());
    assert_eq!(origin(&pinned(&home, &server)), Origin::Release);
    assert_eq!(home.slot(), ["envoy", "envoy.json", "lock"]);
    Ok(())
}

/// No process that was started remains, and no partial file.
#[test]
fn a_signal_ends_pip_and_its_children() -> Outcome {
    for signal in [Signal::TERM, Signal::INT, Signal::HUP] {
        let home = Home::new();
        let server = Server::start(|path, _| published(path, envoy("1.40.0").as_bytes()));
        home.program(
            "bin/pip",
            "#!/bin/sh\ntrap '' HUP INT TERM\n/bin/sleep 60 &\necho half > \"$TMPDIR/half\"\n\
             echo \"$$ $!\" > \"$HOME/pids\"\nwait\n",
        );
        let mut process = start(&home, &server);
        let pids = || std::fs::read_to_string(home.path("pids")).unwrap_or_default();
        until("pip runs", || pids().split_whitespace().count() == 2)?;
        process.signal(signal)?;
        let status = until_ended(&mut process)?;
        assert_eq!(status.signal(), Some(signal.as_raw()), "{}", process.stderr());
        for pid in pids().split_whitespace().map(|pid| pid.parse().unwrap()) {
            let gone = || Pid::from_raw(pid).is_some_and(|pid| test_kill_process(pid).is_err());
            until(&format!("{pid} ends after {signal:?}"), gone)?;
        }
        assert_eq!(home.slot(), ["lock"]);
        assert_eq!(server.downloads(), 0, "another source was tried");
    }
    Ok(())
}

fn until_ended(process: &mut Process) -> Outcome<std::process::ExitStatus> {
    let mut status = None;
    until("it ends", || {
        status = process.exited().ok().flatten();
        status.is_some()
    })?;
    status.context("its status")
}

#[test]
fn a_missing_folder_for_temporary_files_is_named() -> Outcome {
    let home = Home::new();
    let binary = home.program("envoy", &envoy("1.40.0"));
    let mut command = Command::new(env!("CARGO_BIN_EXE_laststream"));
    command.args(["envoy", "get", "1.40.0"]).env("LASTSTREAM_ENVOY", binary);
    run(command.env("TMPDIR", "/nowhere"))?
        .expect(2)?
        .stderr_contains("cannot make a temporary file in `/nowhere` (`TMPDIR`)")?;
    Ok(())
}
