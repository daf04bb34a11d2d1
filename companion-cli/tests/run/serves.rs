//! Requests while policy and module are changed under them.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;

use laststream::local::envoy::{NEWEST, OLDEST};

use crate::client::Client;
use crate::support::{Run, module, put, until};

const REQUESTS: usize = 1000;
const CLIENTS: usize = 4;
const HELD: u64 = 3;

/// What differs in the module only, then in the listener as well: the saved header needs an early
/// mutation.
const POLICIES: [&str; 3] = [
    "count: {exclude: {paths: [{prefix: /nowhere}]}}",
    "forwarded_proto: {presets: [gcp], trust: {peers: [127.0.0.0/8]}}",
    "drain: {deadline: 8s}",
];

#[test]
fn a_thousand_requests_during_five_swaps() {
    for version in [OLDEST, NEWEST] {
        swaps(&version.to_string());
    }
}

fn swaps(version: &str) {
    let folder = tempfile::tempdir().unwrap();
    let (policy, plugin) = (folder.path().join("policy.yaml"), folder.path().join("plugin.wasm"));
    std::fs::write(&policy, "").unwrap();
    module(&plugin, b'0');
    let arguments = [
        "--policy",
        "policy.yaml",
        "--module",
        "plugin.wasm",
        "--watch",
        "--concurrency",
        "2",
        "--envoy-version",
        version,
    ];
    let mut run = Run::start_in(folder, &arguments);
    let at = run.place("listener");
    // Older than all swaps.
    let held: Vec<_> =
        (0..HELD).map(|_| thread::spawn(move || Client::new(at).get("/delay/20", ""))).collect();
    run.until_in_flight(HELD);

    let (done, is_over) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicBool::new(false)));
    let clients: Vec<_> = (0..CLIENTS)
        .map(|_| {
            let (done, is_over) = (Arc::clone(&done), Arc::clone(&is_over));
            thread::spawn(move || {
                let mut client = Client::new(at);
                while !is_over.load(Ordering::Relaxed) {
                    let answer = client.get("/", "x-forwarded-proto: https\r\n");
                    assert_eq!(
                        answer.as_ref().ok().map(|answer| answer.0),
                        Some(200),
                        "a request was lost: {answer:?}"
                    );
                    done.fetch_add(1, Ordering::Relaxed);
                }
            })
        })
        .collect();
    for swap in 0..5 {
        let before = done.load(Ordering::Relaxed);
        change(&run, swap, &policy, &plugin);
        until(
            "requests between swaps",
            || done.load(Ordering::Relaxed).to_string(),
            || {
                done.load(Ordering::Relaxed) > before + 50
                    || clients.iter().all(thread::JoinHandle::is_finished)
            },
        );
    }
    until(
        "a thousand requests",
        || done.load(Ordering::Relaxed).to_string(),
        || {
            done.load(Ordering::Relaxed) >= REQUESTS
                || clients.iter().all(thread::JoinHandle::is_finished)
        },
    );
    is_over.store(true, Ordering::Relaxed);
    clients.into_iter().for_each(|client| client.join().unwrap());
    assert!(done.load(Ordering::Relaxed) >= REQUESTS);

    run.until_in_flight(HELD);
    let status = run.status();
    assert_eq!(
        status["scopes"][0]["begun"],
        done.load(Ordering::Relaxed) as u64 + HELD,
        "{status}"
    );
    held.into_iter().for_each(|request| assert_eq!(request.join().unwrap().unwrap().0, 200));
    run.until_in_flight(0);
    run.interrupt();
    run.ended().expect(0);
}

/// Policy and module in turn; each must be in place before it goes on.
fn change(run: &Run, swap: usize, policy: &Path, plugin: &Path) {
    let what = if swap.is_multiple_of(2) { "policy" } else { "module" };
    let times = |words: &str| run.people().matches(words).count();
    let words = format!("the new {what} is in place");
    let before = times(&words);
    match what {
        "policy" => put(policy, POLICIES[swap / 2].as_bytes()),
        _ => module(plugin, b'1' + u8::try_from(swap).unwrap()),
    }
    until(&words, || run.people(), || times(&words) > before);
}
