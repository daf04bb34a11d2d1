//! The gate of a run is protected as one in a mesh is.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::process::Command;
use std::time::Duration;

use crate::support::{Run, fails};

const SECRET: (&str, &str) = ("LASTSTREAM_SECRET", "open-sesame-0123456789");

/// The status of the answer to this head.
fn ask(run: &Run, head: &str) -> u16 {
    let mut stream = TcpStream::connect(run.place("gate")).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    stream
        .write_all(format!("{head}connection: close\r\ncontent-length: 0\r\n\r\n").as_bytes())
        .unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
        .split(' ')
        .nth(1)
        .and_then(|status| status.parse().ok())
        .unwrap_or_else(|| panic!("no status: {answer}"))
}

#[test]
fn pages_of_a_browser_change_nothing() {
    let mut run = Run::start(&[]);
    for head in [
        "GET /prestop HTTP/1.1\r\nhost: 127.0.0.1\r\nsec-fetch-site: cross-site\r\n",
        "POST /drain HTTP/1.1\r\nhost: 127.0.0.1\r\norigin: https://evil.example\r\n",
        "POST /force?reason=x HTTP/1.1\r\nhost: evil.example\r\n",
        "GET /status HTTP/1.1\r\nhost: evil.example\r\n",
    ] {
        assert_eq!(ask(&run, head), 403, "{head}");
    }
    assert_eq!(run.status()["state"], "serving");
    run.interrupt();
    run.ended().expect(0).says("no stream was in flight when the gate let Envoy end");
}

#[test]
fn a_secret_in_the_environment_is_wanted_and_used() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(
        folder.path().join("policy.yaml"),
        "gate: {secret: {sds: /etc/laststream/sds.yaml}}",
    )
    .unwrap();
    let mut run = Run::start_with(folder, &["--policy", "policy.yaml"], &[SECRET]);
    assert_eq!(ask(&run, "POST /force?reason=x HTTP/1.1\r\nhost: localhost\r\n"), 403);
    let gate = format!("http://{}", run.place("gate"));
    let drain = |secret: &str| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_laststream"));
        command
            .args(["drain", "--gate", &gate])
            .env(SECRET.0, secret)
            .output()
            .unwrap()
            .status
            .code()
    };
    assert_eq!(drain("another-secret-0123456789"), Some(2));
    assert_eq!(drain(SECRET.1), Some(0));
    run.interrupt();
    let ended = run.ended().expect(0).says("no stream was in flight when the gate let Envoy end");
    assert!(!ended.people.contains(SECRET.1), "{}", ended.people);
}

#[test]
fn a_policy_with_a_secret_needs_one() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("policy.yaml"), "gate: {secret: {environment: GATE_SECRET}}")
        .unwrap();
    fails(folder.path(), &["--policy", "policy.yaml"], &[]).expect(2).says("LASTSTREAM_SECRET");
    let short = fails(folder.path(), &["--policy", "policy.yaml"], &[(SECRET.0, "too-short")])
        .expect(2)
        .says("16 characters");
    assert!(!short.people.contains("too-short"), "{}", short.people);
}
