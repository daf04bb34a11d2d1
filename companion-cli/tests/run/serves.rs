//! Requests while policy and module are changed under them.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;

use kit::prelude::*;
use kit::wait::{blocking, until};
use laststream_local::envoy::{NEWEST, OLDEST};

use crate::support::{Run, get, module, put};

const REQUESTS: usize = 1000;
const CLIENTS: usize = 4;
const HELD: u64 = 3;

/// The first policy changes only the module, the second and the third the listener as well: the
/// saved header needs an early mutation.
const POLICIES: [&str; 3] = [
    "count: {exclude: {paths: [{prefix: /nowhere}]}}",
    "forwarded_proto: {presets: [gcp], trust: {peers: [127.0.0.0/8]}}",
    "drain: {deadline: 8s}",
];

#[test]
fn a_thousand_requests_survive_five_swaps() -> Outcome {
    for version in [OLDEST, NEWEST] {
        swaps(&version.to_string())?;
    }
    Ok(())
}

fn swaps(version: &str) -> Outcome {
    let folder = tempfile::tempdir()?;
    let (policy, plugin) = (folder.path().join("policy.yaml"), folder.path().join("plugin.wasm"));
    std::fs::write(&policy, "{}")?;
    module(&plugin, b'0');
    let arguments = "--policy policy.yaml --module plugin.wasm --watch --concurrency 2";
    let arguments = format!("{arguments} --envoy-version {version}");
    let mut run = Run::start_in(folder, &arguments.split(' ').collect::<Vec<_>>())?;
    let at = run.place("listener");
    // These requests are older than all swaps.
    let held: Vec<_> = (0..HELD).map(|_| thread::spawn(move || get(at, "/delay/20"))).collect();
    run.wait_for_in_flight(HELD)?;

    let (done, is_over) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicBool::new(false)));
    let clients: Vec<_> = (0..CLIENTS)
        .map(|_| {
            let (done, is_over) = (Arc::clone(&done), Arc::clone(&is_over));
            thread::spawn(move || blocking(send_requests(at, done, is_over)))
        })
        .collect();
    for swap in 0..5 {
        let before = done.load(Ordering::Relaxed);
        change(&run, swap, &policy, &plugin)?;
        let is_served = || done.load(Ordering::Relaxed) > before + 50;
        until("requests between swaps", || is_served() || clients.iter().all(is_finished))?;
    }
    let is_served = || done.load(Ordering::Relaxed) >= REQUESTS;
    until("a thousand requests", || is_served() || clients.iter().all(is_finished))?;
    is_over.store(true, Ordering::Relaxed);
    clients.into_iter().try_for_each(|client| client.join().unwrap())?;
    assert!(done.load(Ordering::Relaxed) >= REQUESTS);

    run.wait_for_in_flight(HELD)?;
    let status = run.status()?;
    let all = done.load(Ordering::Relaxed) as u64 + HELD;
    assert_eq!(status["scopes"][0]["begun"], all, "{status}");
    for request in held {
        request.join().unwrap()?.expect(200)?;
    }
    run.wait_for_in_flight(0)?;
    run.interrupt()?;
    run.finish()?.expect(0)?;
    Ok(())
}

fn is_finished<T>(thread: &thread::JoinHandle<T>) -> bool {
    thread.is_finished()
}

/// Sends requests, of which none may be lost. A connection ends only where Envoy says so.
async fn send_requests(
    to: SocketAddr,
    done: Arc<AtomicUsize>,
    is_over: Arc<AtomicBool>,
) -> Outcome {
    let request = Request::get("/").header("x-forwarded-proto", "https");
    let mut connection = None;
    while !is_over.load(Ordering::Relaxed) {
        let mut client = match connection.take() {
            Some(client) => client,
            None => Client::connect(to).await?,
        };
        let response = client.request(&request).await.context("a request was lost")?.expect(200)?;
        done.fetch_add(1, Ordering::Relaxed);
        if response.header("connection").as_deref() != Some("close") {
            connection = Some(client);
        }
    }
    Ok(())
}

/// Changes policy and module in turn, and waits until the change is in place.
fn change(run: &Run, swap: usize, policy: &Path, plugin: &Path) -> Outcome {
    let what = if swap.is_multiple_of(2) { "policy" } else { "module" };
    let times = |words: &str| run.stderr().matches(words).count();
    let words = format!("the new {what} is in place");
    let before = times(&words);
    match what {
        "policy" => put(policy, POLICIES[swap / 2].as_bytes()),
        _ => module(plugin, b'1' + u8::try_from(swap).unwrap()),
    }
    until(&words, || times(&words) > before)?;
    Ok(())
}
