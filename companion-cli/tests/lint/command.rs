//! The program itself: what it takes, how it ends, where it writes.

use std::io::Write as _;
use std::process::{Command, Output, Stdio};

use serde_json::Value;

use crate::support::folder;

fn laststream(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_laststream"));
    command.arg("lint").args(arguments).current_dir(folder("."));
    command
}

fn run(arguments: &[&str]) -> (i32, String, String) {
    let Output { status, stdout, stderr } = laststream(arguments).output().unwrap();
    (status.code().unwrap(), String::from_utf8(stdout).unwrap(), String::from_utf8(stderr).unwrap())
}

#[test]
fn exit_codes_say_how_it_ended() {
    for (arguments, code) in [
        (&["good"][..], 0),
        (&["rules/LS110.bad.yaml"], 0), // a hint
        (&["rules/LS110.bad.yaml", "--fail-on", "info"], 1),
        (&["rules/LS206.bad.yaml"], 1),
        (&["rules/LS206.bad.yaml", "--fail-on", "error"], 0),
        (&["rules/LS206.bad.yaml", "--ignore", "ls206"], 0),
        (&["rules/LS201.bad.yaml", "--fail-on", "error"], 1),
        (&["rules/LS001.bad.yaml"], 1),
        (&["nowhere.yaml"], 2),
        (&["good", "nowhere.yaml"], 2),
        (&[], 64),
        (&["good", "--ignore", "LS999"], 64),
        (&["good", "--istio", "new"], 64),
        (&["--explain", "nothing"], 64),
        (&["--explain", "LS204"], 0),
        (&["--list"], 0),
    ] {
        let (found, out, err) = run(arguments);
        assert_eq!(found, code, "{arguments:?}\n{out}\n{err}");
        assert!(found != 2 || (out.is_empty() && err.contains("nowhere.yaml")), "{err}");
    }
}

#[test]
fn data_and_words_are_apart_and_nothing_is_coloured_in_a_pipe() {
    let (_, out, err) = run(&["rules/LS206.bad.yaml"]);
    assert!(out.contains("LS206.bad.yaml:") && !out.contains('\u{1b}'), "{out}");
    assert_eq!(err.trim(), "1 file: 0 errors, 2 warnings");
    let (_, out, err) = run(&["good"]);
    assert_eq!((out.as_str(), err.trim()), ("", "1 file: nothing found"));
    for format in ["json", "sarif"] {
        let (_, out, _) = run(&["rules", "-o", format]);
        serde_json::from_str::<Value>(&out).unwrap_or_else(|error| panic!("{format}: {error}"));
    }
}

#[test]
fn standard_input_is_a_file_too() {
    let mut child = laststream(&["-", "-o", "json"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let text = std::fs::read(folder("rules").join("LS206.bad.yaml")).unwrap();
    child.stdin.take().unwrap().write_all(&text).unwrap();
    let output = child.wait_with_output().unwrap();
    let json: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(
        (json["findings"][0]["file"].as_str(), output.status.code()),
        (Some("<stdin>"), Some(1))
    );
}

#[test]
fn folders_are_searched_without_running_in_circles() {
    let home = tempfile::tempdir().unwrap();
    let path = |name: &str| home.path().join(name);
    std::fs::create_dir_all(path("b/c")).unwrap();
    std::fs::create_dir(path(".git")).unwrap();
    for (name, text) in [
        ("a.yaml", "a: ["),
        ("b/c/d.YML", "a: ["),
        ("b/e.json", "{"),
        ("b/notes.txt", "a: ["),
        (".git/x.yaml", "a: ["),
    ] {
        std::fs::write(path(name), text).unwrap();
    }
    #[cfg(unix)]
    std::os::unix::fs::symlink(home.path(), path("b/again")).unwrap();
    let (code, out, _) = run(&[home.path().to_str().unwrap(), "-o", "json"]);
    let json: Value = serde_json::from_str(&out).unwrap();
    let found: Vec<_> = json["findings"]
        .as_array()
        .unwrap()
        .iter()
        .map(|finding| finding["file"].as_str().unwrap().rsplit('/').next().unwrap())
        .collect();
    assert_eq!((code, found), (1, vec!["a.yaml", "d.YML", "e.json"]));
    std::fs::create_dir(path("empty")).unwrap();
    let (code, _, err) = run(&[path("empty").to_str().unwrap()]);
    assert!(code == 2 && err.contains("holds no file"), "{err}");
}

/// The examples of `--help`, on files that are there.
#[test]
fn the_examples_of_the_help_work() {
    let (code, help, _) = run(&["--help"]);
    assert_eq!(code, 0);
    let examples: Vec<_> = help
        .split_once("Examples:")
        .unwrap()
        .1
        .lines()
        .filter_map(|line| line.trim().split_once("laststream lint "))
        .collect();
    assert_eq!(examples.len(), 4, "{help}");
    for (_, arguments) in examples {
        let arguments = arguments.split(" > ").next().unwrap().replace("mesh/", "good");
        let arguments: Vec<_> = arguments.split_whitespace().collect();
        let output = laststream(&arguments).stdin(Stdio::null()).output().unwrap();
        assert_eq!(
            output.status.code(),
            Some(0),
            "{arguments:?}: {}",
            String::from_utf8_lossy(&output.stderr)
        );
    }
}

/// What the project itself hands out, and renders: each situation by itself, as it is applied.
#[test]
fn the_projects_own_manifests_are_good() {
    let manifests =
        std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../envoyfilter-manifests");
    let situations = std::fs::read_dir(&manifests)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.is_dir());
    let situations: Vec<_> = situations.collect();
    assert!(situations.len() > 1, "{situations:?}");
    for situation in situations {
        let (code, out, err) = run(&[situation.to_str().unwrap(), "--fail-on", "info"]);
        assert_eq!(code, 0, "{out}{err}");
    }
}
