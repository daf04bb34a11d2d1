//! The official release from a local server: accepted, refused and repeated downloads.

use crate::envoy_command::server::{Reply, downloads, pinned, published, release, sha256};
use crate::envoy_command::support::{Heard, Home, envoy, fails, origin, problem, says};
use kit::fake_server::{Answer, FakeServer, Fault};
use laststream_base::progress::Silent;
use laststream_local::envoy::{Origin, Wanted, find_or_get};
use std::fs;
use std::time::Duration;

const RELEASE: &str = "the official release";

fn refused(home: &Home, server: &FakeServer, binary: &str) -> String {
    let error = fails(&pinned(home, server, binary));
    assert_eq!(home.slot(), ["lock"], "{error}");
    error
}

fn http_error(home: &Home, server: &FakeServer) -> String {
    let error = refused(home, server, &envoy("1.40.0"));
    let address = format!("{RELEASE}: `{}/v1.40.0/envoy-1.40.0-linux-x86_64`: ", server.url(""));
    let problem = problem(&error, RELEASE).strip_prefix(&address);
    problem.unwrap_or_else(|| panic!("{address} in {error}")).to_owned()
}

#[test]
fn a_release_is_fetched_once_and_then_found_in_the_cache() {
    let (home, heard) = (Home::new(), Heard::default());
    let server = release(envoy("1.40.0"));
    let wanted = pinned(&home, &server, &envoy("1.40.0"));
    let first = find_or_get(&wanted, &heard).unwrap();
    assert_eq!(
        (first.origin, &first.binary),
        (Origin::Release, &home.path("cache/envoy/1.40.0/envoy"))
    );
    assert_eq!(fs::read_to_string(&first.binary).unwrap(), envoy("1.40.0"));
    assert_eq!((server.asked().len(), downloads(&server)), (1, 1));
    assert_eq!(home.slot(), ["envoy", "envoy.json", "lock"]);
    let said = heard.all().join("\n");
    assert!(said.contains("fetching Envoy 1.40.0 from the official release"), "{said}");
    let offline = Wanted { offline: true, ..wanted };
    let second = find_or_get(&offline, &Silent).unwrap();
    assert_eq!((second.origin, second.binary), (Origin::Cache, first.binary));
    assert_eq!(server.asked().len(), 1);
}

#[test]
fn a_damaged_cache_is_fetched_again() {
    let home = Home::new();
    let server = release(envoy("1.40.0"));
    let wanted = pinned(&home, &server, &envoy("1.40.0"));
    let binary = find_or_get(&wanted, &Silent).unwrap().binary;
    fs::write(&binary, &envoy("1.40.0")[..5000]).unwrap();
    let offline = Wanted { offline: true, ..wanted.clone() };
    let error = fails(&offline);
    says(problem(&error, "cache"), &["the file is damaged or not complete"]);
    assert_eq!(origin(&wanted), Origin::Release);
    assert_eq!(fs::read_to_string(&binary).unwrap(), envoy("1.40.0"));
}

#[test]
fn wrong_bytes_are_not_used_and_not_asked_for_again() {
    let (home, server) = (Home::new(), release("other".to_owned()));
    let error = refused(&home, &server, &envoy("1.40.0"));
    let (found, pinned) = (sha256(b"other"), sha256(envoy("1.40.0").as_bytes()));
    let sums = format!("has the SHA-256 `{found}`, not the expected `{pinned}`");
    says(problem(&error, RELEASE), &[&sums]);
    assert_eq!(downloads(&server), 1);
}

#[test]
fn a_missing_file_is_requested_once() {
    let (home, server) = (Home::new(), FakeServer::start(|_, _| Ok(Answer::new(404))).unwrap());
    assert_eq!(http_error(&home, &server), "the server answers with status 404");
    assert_eq!(server.asked().len(), 1);
}

#[test]
fn half_a_body_is_never_used() {
    let half = |path: &str| -> Reply {
        let reply = published(path, envoy("1.40.0").as_bytes());
        if path.ends_with("x86_64") {
            Err(Fault::Part(reply?, 100_000, Duration::ZERO))
        } else {
            reply
        }
    };
    let (home, server) =
        (Home::new(), FakeServer::start(move |asked, _| half(&asked.target)).unwrap());
    assert!(http_error(&home, &server).starts_with("the connection failed: "));
    assert_eq!(downloads(&server), 3);
    // Once broken, then whole: the first half does not stay in front of the second try.
    let home = Home::new();
    let server = FakeServer::start(move |asked, before| {
        let path = &asked.target;
        if before == 0 { half(path) } else { published(path, envoy("1.40.0").as_bytes()) }
    })
    .unwrap();
    find_or_get(&pinned(&home, &server, &envoy("1.40.0")), &Silent).unwrap();
    assert_eq!(downloads(&server), 2);
}

/// The official server stores its files elsewhere.
#[test]
fn redirects_are_followed() {
    let home = Home::new();
    let storage = release(envoy("1.40.0"));
    let to = storage.url("");
    let redirect = move |path: &str| Answer::new(302).with("location", format!("{to}{path}"));
    let server = FakeServer::start(move |asked, _| Ok(redirect(&asked.target))).unwrap();
    assert_eq!(origin(&pinned(&home, &server, &envoy("1.40.0"))), Origin::Release);
    assert_eq!(downloads(&storage), 1);
}

#[test]
fn an_oversized_answer_is_refused() {
    let home = Home::new();
    let server = release("x".repeat(11 << 20));
    assert_eq!(http_error(&home, &server), "the answer is larger than 10485760 bytes");
}

#[test]
fn a_fetched_binary_is_run_before_it_is_installed() {
    for (binary, part) in [
        (envoy("1.39.3"), "it is version `1.39.3`, wanted is `1.40.0`"),
        ("not a program".to_owned(), "cannot be started"),
        ("#!/bin/sh\necho hello\n".to_owned(), "does not answer as Envoy does, but `hello`"),
    ] {
        says(refused(&Home::new(), &release(binary.clone()), &binary), &[part]);
    }
}
