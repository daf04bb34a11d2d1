//! Standard output that accepts no more bytes: a full device, and a closed pipe.

use std::fs::File;
use std::path::Path;
use std::process::{Command, Stdio};

use kit::Outcome;
use kit::command::run_with_input;
use kit::fake_server::{Answer, FakeServer};
use kit::process::{Process, guarded};

use crate::cli::support::{PROGRAM, loadable};

const POLICY: &str = "namespace: a\nmodule: /a.wasm\n";
/// Commands that need nothing but a policy on standard input.
const COMMANDS: [&[&str]; 9] = [
    &["--help"],
    &["--version"],
    &["lint", "--help"],
    &["lint", "--list"],
    &["version"],
    &["completions", "bash"],
    &["config", "schema"],
    &["render", "schema"],
    &["render", "envoyfilter", "--policy", "-"],
];

#[test]
fn a_full_device_is_an_error() -> Outcome {
    for arguments in COMMANDS {
        let mut command = Command::new("sh");
        command.args(["-c", "exec \"$@\" >/dev/full", "sh", PROGRAM]).args(arguments);
        let said = run_with_input(&mut command, POLICY)?.expect(2)?;
        let said = said
            .stderr_contains("error: cannot write to standard output: No space left on device")?;
        assert_eq!(said.stderr.trim().lines().count(), 1, "{arguments:?}: {}", said.stderr);
    }
    Ok(())
}

/// The exit code, and standard error, with a pipe that no program reads.
fn without_a_reader(arguments: &[&str], input: &Path) -> Outcome<(Option<i32>, String)> {
    let (reader, writer) = std::io::pipe()?;
    drop(reader);
    let mut command = guarded(PROGRAM);
    command.args(arguments).stdin(File::open(input)?).stdout(writer).stderr(Stdio::piped());
    let output = Process::spawn(command)?.finish()?;
    Ok((output.code, output.stderr))
}

#[test]
fn a_closed_pipe_is_no_error() -> Outcome {
    let folder = tempfile::tempdir()?;
    let policy = folder.path().join("policy.yaml");
    std::fs::write(&policy, POLICY)?;
    for arguments in COMMANDS {
        let (code, said) = without_a_reader(arguments, &policy)?;
        assert_eq!((code, said.contains("error")), (Some(0), false), "{arguments:?}: {said}");
    }
    Ok(())
}

/// A 0 would say that the check found nothing, or that the gate is open.
#[test]
fn a_closed_pipe_gets_no_verdict() -> Outcome {
    let folder = tempfile::tempdir()?;
    let (policy, module) = (folder.path().join("policy.yaml"), folder.path().join("a.wasm"));
    std::fs::write(&policy, POLICY)?;
    std::fs::write(&module, loadable(""))?;
    std::fs::write(folder.path().join("envoyfilter.yaml"), "# changed\n")?;
    let gate = FakeServer::start(|_, _| {
        let body =
            r#"{"state": "drained", "reason": "x", "count": "exact", "holding": 0, "scopes": []}"#;
        Ok(Answer::new(200).body(body))
    })?;
    let (url, module) = (gate.url(""), module.to_str().unwrap());
    let there = folder.path().to_str().unwrap();
    for arguments in [
        ["inspect", module].as_slice(),
        &["lint", "-o", "json", "-"],
        &["render", "envoyfilter", "--policy", "-", "--check", there],
        &["status", "--watch", "--gate", &url],
        &["wait", "--gate", &url],
    ] {
        let (code, said) = without_a_reader(arguments, &policy)?;
        assert_eq!((code, said.contains("error")), (Some(141), false), "{arguments:?}: {said}");
    }
    Ok(())
}
