//! Several processes at once, and processes that are killed in the middle. The others are the
//! command line itself.

use crate::server::{Reply, Server, published};
use crate::support::{Heard, Home, envoy};
use laststream::local::envoy::{Origin, Wanted, find_or_get};
use laststream::progress::Silent;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

fn start(home: &Home, server: &Server) -> Child {
    let mut command = Command::new(env!("CARGO_BIN_EXE_laststream"));
    command
        .args(["envoy", "get", "1.40.0", "--sha256", &server.sha256])
        .env_clear()
        .env("HOME", home.path(""))
        .env("PATH", home.path("bin"));
    command.env("LASTSTREAM_CACHE", home.path("cache")).env("LASTSTREAM_ENVOY_MIRROR", &server.url);
    command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
}

/// What it told people; the path of the binary must be what it printed.
fn said(home: &Home, child: Child) -> String {
    let output = child.wait_with_output().unwrap();
    let people = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{people}");
    assert_eq!(
        String::from_utf8_lossy(&output.stdout).trim(),
        home.path("cache/envoy/1.40.0/envoy").to_str().unwrap()
    );
    people
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

fn until(what: &str, condition: impl Fn() -> bool) {
    let began = Instant::now();
    while !condition() {
        assert!(began.elapsed() < Duration::from_secs(20), "{what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn of_many_processes_one_fetches_and_all_have_it() {
    let (home, server) = (Home::new(), slow(Duration::from_millis(300)));
    let children: Vec<Child> = (0..4).map(|_| start(&home, &server)).collect();
    let heard: Vec<String> = children.into_iter().map(|child| said(&home, child)).collect();
    assert_eq!(
        heard.iter().filter(|text| text.contains("fetching Envoy 1.40.0")).count(),
        1,
        "{heard:?}"
    );
    assert_eq!(server.downloads(), 1);
    assert_eq!(home.slot(), ["envoy", "envoy.json", "lock"]);
}

#[test]
fn who_waits_says_so() {
    let (home, server) = (Home::new(), slow(Duration::from_millis(300)));
    let other = start(&home, &server);
    until("the other process downloads", || server.downloads() == 1);
    let heard = Heard::default();
    assert_eq!(
        find_or_get(
            &Wanted { sha256: Some(server.sha256.clone()), ..home.wanted(&server.url) },
            &heard
        )
        .unwrap()
        .origin,
        Origin::Cache
    );
    assert_eq!(heard.all()[0], "waiting for another process that fetches Envoy 1.40.0");
    said(&home, other);
}

#[test]
fn a_killed_process_leaves_no_lock_and_nothing_to_use() {
    let home = Home::new();
    // Half of the body, then silence: the other process is in the middle of writing.
    let server = Server::start(|path, before| {
        let reply = published(path, envoy("1.40.0").as_bytes());
        let stop =
            (path.ends_with("x86_64") && before == 0).then_some((200_000, Duration::from_secs(20)));
        Reply { stop, ..reply }
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
    until("something is written", || leftover().is_some());
    other.kill().unwrap();
    other.wait().unwrap();
    assert!(leftover().is_some());
    assert_eq!(
        find_or_get(
            &Wanted { sha256: Some(server.sha256.clone()), ..home.wanted(&server.url) },
            &Silent
        )
        .unwrap()
        .origin,
        Origin::Release
    );
    assert_eq!(home.slot(), ["envoy", "envoy.json", "lock"]);
}
