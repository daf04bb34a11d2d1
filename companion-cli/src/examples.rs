//! Tests that the examples in the help texts are valid commands.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::process::Command as Process;

use clap::{Command, CommandFactory as _, Parser as _};

use crate::cli::Arguments;

/// A stub that writes its arguments to a file, each followed by a zero byte, and a line feed at the
/// end.
const STUB: &str = "#!/bin/sh\nfor argument; do printf '%s\\0' \"$argument\"; done \
    >>\"$NOTES\"\necho >>\"$NOTES\"\n";

fn leaves(command: &Command, path: &str, found: &mut Vec<(String, Command)>) {
    let path = format!("{path} {}", command.get_name());
    let mut children =
        command.get_subcommands().filter(|child| child.get_name() != "help").peekable();
    if children.peek().is_none() {
        found.push((path, command.clone()));
        return;
    }
    children.for_each(|child| leaves(child, &path, found));
}

fn examples(command: &Command) -> Vec<String> {
    let help = command.get_after_help().map(ToString::to_string).unwrap_or_default();
    let lines = help.lines().skip_while(|line| !line.starts_with("Example")).skip(1);
    lines.take_while(|line| line.starts_with("  ")).map(|line| line.trim().to_owned()).collect()
}

/// The arguments of each call of the program when a shell runs these lines. The shell can start no
/// other program.
pub(crate) fn calls(line: &str) -> Vec<Vec<String>> {
    let folder = tempfile::tempdir().unwrap();
    let stub = folder.path().join(env!("CARGO_BIN_NAME"));
    fs::write(&stub, STUB).unwrap();
    fs::set_permissions(&stub, fs::Permissions::from_mode(0o755)).unwrap();
    let notes = folder.path().join("notes");
    Process::new("/bin/sh")
        .args(["-c", line])
        .current_dir(folder.path())
        .env_clear()
        .envs([("PATH", folder.path()), ("HOME", folder.path()), ("NOTES", &notes)])
        .output()
        .unwrap();
    let notes = fs::read_to_string(notes).unwrap_or_default();
    notes.lines().map(|line| line.split_terminator('\0').map(str::to_owned).collect()).collect()
}

#[test]
fn every_command_has_valid_examples() {
    let mut commands = Vec::new();
    leaves(&Arguments::command(), "", &mut commands);
    assert!(commands.len() > 5, "{commands:?}");
    for (path, command) in commands {
        assert!(command.get_about().is_some(), "`{path}` does not say what it does");
        let examples = examples(&command);
        assert!(!examples.is_empty(), "the help of `{path}` has no examples");
        let calls: Vec<_> = examples.iter().flat_map(|line| calls(line)).collect();
        assert!(
            calls.iter().any(|call| format!(" laststream {}", call.join(" ")).starts_with(&path)),
            "no example of `{path}` shows it: {calls:?}"
        );
        for call in calls {
            let arguments = std::iter::once("laststream".to_owned()).chain(call.clone());
            if let Err(error) = Arguments::try_parse_from(arguments) {
                panic!("an example of `{path}` is not taken: {call:?}\n{error}");
            }
        }
    }
}

#[test]
fn clap_accepts_the_definitions_of_the_arguments() {
    Arguments::command().debug_assert();
}
