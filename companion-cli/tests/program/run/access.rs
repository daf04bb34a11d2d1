//! The gate of a run is protected as one in a mesh is.

use std::process::Command;

use kit::command;
use kit::prelude::*;
use kit::wait::blocking;

use crate::run::support::{Run, fails, folder_with_policy};

const SECRET: (&str, &str) = ("LASTSTREAM_SECRET", "open-sesame-0123456789");

/// The status of the gate's answer.
fn ask(run: &Run, request: Request) -> Outcome<u16> {
    blocking(async { Ok(once(run.place("gate"), &request).await?.status) })
}

#[test]
fn pages_of_a_browser_change_nothing() -> Outcome {
    let mut run = Run::start(&[])?;
    let (get, post) = (Request::get, |target: &str| Request::post(target, ""));
    for request in [
        get("/prestop").host("127.0.0.1").header("sec-fetch-site", "cross-site"),
        post("/drain").host("127.0.0.1").header("origin", "https://evil.example"),
        post("/force?reason=x").host("evil.example"),
        get("/status").host("evil.example"),
    ] {
        assert_eq!(ask(&run, request.clone())?, 403, "{:?}", request.bytes());
    }
    assert_eq!(run.status()?["state"], "serving");
    run.interrupt()?;
    run.finish()?
        .expect(0)?
        .stderr_contains("no stream was in flight when the gate let Envoy end")?;
    Ok(())
}

#[test]
fn a_secret_in_the_environment_is_required_and_used() -> Outcome {
    let folder = folder_with_policy("gate: {secret: {sds: /etc/laststream/sds.yaml}}")?;
    let mut run = Run::start_with(folder, &["--policy", "policy.yaml"], &[SECRET])?;
    let force = Request::post("/force?reason=x", "").host("localhost");
    assert_eq!(ask(&run, force)?, 403);
    let gate = format!("http://{}", run.place("gate"));
    let drain = |secret: &str| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_laststream"));
        command::run(command.args(["drain", "--gate", &gate]).env(SECRET.0, secret))
    };
    drain("another-secret-0123456789")?.expect(2)?;
    drain(SECRET.1)?.expect(0)?;
    run.interrupt()?;
    run.finish()?
        .expect(0)?
        .stderr_contains("no stream was in flight when the gate let Envoy end")?
        .hides(SECRET.1)?;
    Ok(())
}

#[test]
fn a_policy_with_a_secret_needs_a_valid_secret() -> Outcome {
    let folder = folder_with_policy("gate: {secret: {environment: GATE_SECRET}}")?;
    fails(folder.path(), &["--policy", "policy.yaml"], &[])?
        .expect(2)?
        .stderr_contains("LASTSTREAM_SECRET")?;
    fails(folder.path(), &["--policy", "policy.yaml"], &[(SECRET.0, "too-short")])?
        .expect(2)?
        .stderr_contains("16 characters")?
        .hides("too-short")?;
    Ok(())
}
