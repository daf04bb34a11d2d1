//! Several processes at once, and processes that are killed in the middle. The others are this test program, started again.

use crate::server::{Reply, Server, published};
use crate::support::{Heard, Home, envoy, wanted};
use laststream::envoy::{Origin, find_or_get};
use laststream::progress::Silent;
use std::io::Read;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// Tells [`child`] what to do: the home and the address of the server.
const HOME: &str = "LASTSTREAM_TEST_HOME";
const MIRROR: &str = "LASTSTREAM_TEST_MIRROR";

/// What the other processes run; no test by itself.
#[test]
#[ignore = "is started by the tests of this file"]
#[expect(clippy::print_stdout, reason = "what the other process found is read from its output")]
fn child() {
    // With `--include-ignored` it is started without a task.
    let (Ok(home), Ok(mirror)) = (std::env::var(HOME), std::env::var(MIRROR)) else { return };
    let found = find_or_get(&wanted(Path::new(&home), &mirror), &Silent).unwrap();
    println!("found {:?}", found.origin);
}

fn start(home: &Home, server: &Server) -> Child {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", "processes::child", "--ignored", "--nocapture"]);
    command.env(HOME, home.path("")).env(MIRROR, &server.url);
    command.stdout(Stdio::piped()).spawn().unwrap()
}

fn said(mut child: Child) -> String {
    let mut text = String::new();
    child.stdout.take().unwrap().read_to_string(&mut text).unwrap();
    assert!(child.wait().unwrap().success(), "{text}");
    text
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
    let heard: Vec<String> = children.into_iter().map(said).collect();
    assert_eq!(heard.iter().filter(|text| text.contains("found Release")).count(), 1, "{heard:?}");
    assert_eq!(heard.iter().filter(|text| text.contains("found Cache")).count(), 3, "{heard:?}");
    assert_eq!(server.downloads(), 1);
    assert_eq!(home.slot(), ["envoy", "envoy.json", "lock"]);
}

#[test]
fn who_waits_says_so() {
    let (home, server) = (Home::new(), slow(Duration::from_millis(300)));
    let other = start(&home, &server);
    until("the other process downloads", || server.downloads() == 1);
    let heard = Heard::default();
    assert_eq!(find_or_get(&home.wanted(&server.url), &heard).unwrap().origin, Origin::Cache);
    assert_eq!(heard.all()[0], "waiting for another process that fetches Envoy 1.40.0");
    said(other);
}

#[test]
fn a_killed_process_leaves_no_lock_and_nothing_to_use() {
    let home = Home::new();
    // Half of the body, then silence: the other process is in the middle of writing.
    let server = Server::start(|path, before| {
        let reply = published(path, envoy("1.40.0").as_bytes());
        let stop = (path.ends_with("x86_64") && before == 0).then_some((200_000, Duration::from_secs(20)));
        Reply { stop, ..reply }
    });
    let mut other = start(&home, &server);
    let leftover = || {
        let part = home.path("cache/envoy/1.40.0");
        let parts = std::fs::read_dir(part).into_iter().flatten().flatten();
        parts.filter(|entry| entry.file_name().to_string_lossy().starts_with("part-")).find_map(|entry| {
            let half = entry.path().join("envoy");
            half.metadata().is_ok_and(|about| about.len() > 0).then_some(half)
        })
    };
    until("something is written", || leftover().is_some());
    other.kill().unwrap();
    other.wait().unwrap();
    assert!(leftover().is_some());
    assert_eq!(find_or_get(&home.wanted(&server.url), &Silent).unwrap().origin, Origin::Release);
    assert_eq!(home.slot(), ["envoy", "envoy.json", "lock"]);
}
