//! The program itself: its arguments, exit codes and outputs.

use std::process::Command;

use kit::Outcome;
use kit::command::{CommandOutput, run, run_with_input};

use crate::support::folder;

fn laststream(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_laststream"));
    let of_example = |name: &&str| Some(folder(name)).filter(|path| path.exists());
    let arguments = arguments.iter().map(|name| of_example(name).unwrap_or_else(|| name.into()));
    command.arg("lint").args(arguments);
    command
}

fn lint(arguments: &[&str]) -> Outcome<CommandOutput> {
    run(&mut laststream(arguments))
}

#[test]
fn exit_codes_show_the_result() -> Outcome {
    for (arguments, code) in [
        (&["good"][..], 0),
        (&["LS210.bad.yaml"], 0), // a hint
        (&["LS210.bad.yaml", "--fail-on", "info"], 1),
        (&["LS206.bad.yaml"], 1),
        (&["LS206.bad.yaml", "--fail-on", "error"], 0),
        (&["LS206.bad.yaml", "--ignore", "ls206"], 0),
        (&["LS201.bad.yaml", "--fail-on", "error"], 1),
        (&["LS001.bad.yaml"], 1),
        (&["nowhere.yaml"], 2),
        (&["good", "nowhere.yaml"], 2),
        (&[], 64),
        (&["good", "--ignore", "LS999"], 64),
        (&["good", "--istio", "new"], 64),
        (&["--explain", "nothing"], 64),
        (&["--explain", "LS204"], 0),
        (&["--explain", "LS204", "-o", "json"], 64),
        (&["--list"], 0),
        (&["--change", "LS705/old.yaml", "LS705/new.yaml"], 1),
        (&["--change", "nothing/old.yaml", "nothing/new.yaml"], 0),
        (&["--change", "LS714/old.yaml", "LS714/new.yaml"], 0), // hints
        (&["--change", "LS705", "nowhere.yaml"], 2),
        (&["--change", "LS705"], 64),
        (&["--change", "-", "-"], 64),
        (&["--crds", "-", "-"], 64),
        (&["-", "-"], 64),
        (&["good", "--change", "good", "good"], 64),
        (&["LS921.bad.yaml", "--upgrade", "envoy=1.39:1.40,envoy-gateway=1.8:1.9"], 1),
        (&["LS921.bad.yaml", "--upgrade", "envoy=1.39:1.40"], 0),
        (&["good", "--upgrade", "istio=1.30:1.99"], 64),
    ] {
        let output = lint(arguments)?.expect(code)?;
        if code == 2 {
            assert_eq!(output.stdout, "");
            output.stderr_contains("nowhere.yaml")?;
        }
    }
    Ok(())
}

#[test]
fn findings_and_summary_are_separate_and_pipes_get_no_colours() -> Outcome {
    let bad = lint(&["LS206.bad.yaml"])?;
    let summary = "1 file with 2 objects that rules read: 0 errors, 2 warnings";
    assert_eq!(bad.stderr, format!("{summary}\nwhy: laststream lint --explain LS206\n"));
    let json = lint(&["LS206.bad.yaml", "-o", "json"])?;
    assert_eq!(json.stderr.trim(), summary);
    bad.stdout_contains("LS206.bad.yaml:")?.hides("\u{1b}")?;
    let good = lint(&["good"])?;
    let read = "1 file with 2 objects that rules read: nothing found";
    assert_eq!((good.stdout.as_str(), good.stderr.trim()), ("", read));
    Ok(())
}

/// "Nothing found" never means "nothing read", and a proxy that loses requests is named.
#[test]
fn what_was_read_and_what_the_next_stop_cuts_are_said() -> Outcome {
    let of = |text: &str| run_with_input(&mut laststream(&["-"]), text)?.expect(0);
    let nothing = "1 file with 0 objects that rules read: nothing found";
    assert_eq!(of("hello: world\n")?.stderr.trim(), nothing);
    let gateway = "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: edge}\nspec: {selector: \
        {matchLabels: {a: b}}, template: {metadata: {labels: {a: b}, annotations: \
        {inject.istio.io/templates: gateway}}, spec: {containers: [{name: istio-proxy, image: \
        auto}]}}}\n";
    let said =
        of(gateway)?.stderr_contains("1 file with 1 object that rules read: nothing found")?;
    let sentence =
        "Deployment edge (chart gateway): its next stop: what takes longer than 5 s is cut";
    said.stderr_contains(sentence)?;
    let json = run_with_input(&mut laststream(&["-o", "json", "-"]), gateway)?.expect(0)?.json()?;
    assert_eq!(json["objects_read"], 1);
    assert_eq!(json["stops"][0]["longest_request_ms"], 5000);
    Ok(())
}

/// A rule of laststream stands in for the API server's verdict at the same place, unless it is
/// ignored: by the option, or by a comment.
#[test]
fn an_ignored_rule_hides_no_verdict_of_the_api_server() -> Outcome {
    const TEXT: &str = "apiVersion: networking.istio.io/v1alpha3\nkind: EnvoyFilter\n\
        metadata: {name: a, namespace: istio-system}\nspec:\n  configPatches:\n  \
        - {applyTo: CLUSTER, patch: {operation: MERG, value: {name: a}}}\n";
    let said = |arguments: &[&str], text| {
        run_with_input(&mut laststream(&[&["-"], arguments].concat()), text)
    };
    said(&[], TEXT)?.expect(1)?.stdout_contains("LS102")?.hides("LS008")?;
    let of_server = said(&["--ignore", "LS102"], TEXT)?.expect(1)?;
    of_server.stdout_contains("LS008")?.hides("[LS102]")?;
    said(&["--ignore", "LS102,LS008"], TEXT)?.expect(0)?;
    let commented = format!("# laststream-lint: ignore-file=LS102\n{TEXT}");
    let of_comment = said(&[], &commented)?.expect(1)?;
    of_comment.stdout_contains("LS008")?.stdout_contains("<stdin>:")?;
    Ok(())
}

/// A command in front of a pipe may have failed.
#[test]
fn an_empty_standard_input_cannot_be_read() -> Outcome {
    for arguments in [&["-"][..], &["--change", "good", "-"], &["--crds", "-", "good"]] {
        for input in ["", " \n"] {
            let output = run_with_input(&mut laststream(arguments), input)?.expect(2)?;
            output.stderr_contains("standard input holds nothing")?;
        }
    }
    Ok(())
}

#[test]
fn folders_are_searched_without_running_in_circles() -> Outcome {
    let home = tempfile::tempdir()?;
    let path = |name: &str| home.path().join(name);
    std::fs::create_dir_all(path("b/c"))?;
    std::fs::create_dir(path(".git"))?;
    for (name, text) in [
        ("a.yaml", "a: ["),
        ("b/c/d.YML", "a: ["),
        ("b/e.json", "{"),
        ("b/notes.txt", "a: ["),
        (".git/x.yaml", "a: ["),
    ] {
        std::fs::write(path(name), text)?;
    }
    #[cfg(unix)]
    std::os::unix::fs::symlink(home.path(), path("b/again")).unwrap();
    let json = lint(&[home.path().to_str().unwrap(), "-o", "json"])?.expect(1)?.json()?;
    let found: Vec<_> = json["findings"]
        .as_array()
        .unwrap()
        .iter()
        .map(|finding| finding["file"].as_str().unwrap().rsplit('/').next().unwrap())
        .collect();
    assert_eq!(found, ["a.yaml", "d.YML", "e.json"]);
    std::fs::create_dir(path("empty"))?;
    lint(&[path("empty").to_str().unwrap()])?.expect(2)?.stderr_contains("holds no file")?;
    Ok(())
}

/// The examples of `--help`, on files that are there. One needs a cluster.
#[test]
fn the_examples_of_the_help_work() -> Outcome {
    let help = lint(&["--help"])?.expect(0)?.stdout;
    let examples: Vec<_> = help
        .split_once("Examples:")
        .unwrap()
        .1
        .lines()
        .filter_map(|line| line.trim().split_once("laststream lint "))
        .filter(|(_, arguments)| !arguments.contains("--cluster"))
        .collect();
    assert_eq!(examples.len(), 6, "{help}");
    for (_, arguments) in examples {
        let arguments = arguments.split(" > ").next().unwrap().replace("mesh/", "good");
        let arguments = arguments.replace("changed/", "good");
        let arguments: Vec<_> = arguments.split_whitespace().collect();
        run_with_input(&mut laststream(&arguments), "kind: List\n")?.expect(0)?;
    }
    Ok(())
}

/// The manifests that the project publishes: each situation by itself, as it is applied, and all
/// together, as in a repository with several policies.
#[test]
fn the_projects_own_manifests_are_good() -> Outcome {
    let manifests =
        std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../envoyfilter-manifests");
    let situations = std::fs::read_dir(&manifests)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.is_dir());
    let situations: Vec<_> = situations.collect();
    assert!(situations.len() > 1, "{situations:?}");
    let mut all = vec!["--fail-on", "info"];
    for situation in &situations {
        let situation = situation.to_str().unwrap();
        lint(&[situation, "--fail-on", "info"])?.expect(0)?;
        all.push(situation);
    }
    lint(&all)?.expect(0)?;
    Ok(())
}
