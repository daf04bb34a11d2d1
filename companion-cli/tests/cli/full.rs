//! Standard output that takes nothing: a full device, and a reader that has enough.

use std::fs::File;
use std::io::Read as _;
use std::process::{Command, Stdio};

use kit::Outcome;
use kit::command::run_with_input;

use crate::support::PROGRAM;

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

#[test]
fn a_reader_that_has_enough_is_no_error() -> Outcome {
    let folder = tempfile::tempdir()?;
    let policy = folder.path().join("policy.yaml");
    std::fs::write(&policy, POLICY)?;
    for arguments in COMMANDS {
        let (reader, writer) = std::io::pipe()?;
        drop(reader);
        let mut child = Command::new(PROGRAM)
            .args(arguments)
            .stdin(File::open(&policy)?)
            .stdout(writer)
            .stderr(Stdio::piped())
            .spawn()?;
        let mut said = String::new();
        child.stderr.take().unwrap().read_to_string(&mut said)?;
        assert_eq!((child.wait()?.code(), said.contains("error")), (Some(0), false), "{said}");
    }
    Ok(())
}
