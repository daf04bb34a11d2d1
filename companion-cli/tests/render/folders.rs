//! Folders: `envoyfilter-manifests` is what its policies say, and git is what is checked.

use std::fs;

use crate::support::{folder, gateway, manifests, render};

#[test]
fn the_manifests_are_what_their_policies_say() {
    for (name, path) in manifests() {
        let said = render(&path, &["all", "--policy", "policy.yaml", "--check", "."]);
        assert_eq!(
            said.code, 0,
            "{name}: {}{}\nrender it: laststream render all --policy policy.yaml --output .",
            said.people, said.data
        );
        assert!(said.people.is_empty() && said.data.is_empty(), "{name}: {said:?}");
    }
}

#[test]
fn each_manifest_has_its_readme() {
    let all = fs::read_to_string(manifests()[0].1.join("../README.md")).unwrap();
    for (name, path) in manifests() {
        assert!(fs::read_to_string(path.join("README.md")).unwrap().lines().count() <= 8, "{name}");
        assert!(all.contains(&format!("]({name})")), "{name} is not in the table");
    }
}

#[test]
fn check_tells_missing_changed_and_stale_and_writes_nothing() {
    let folder = folder(&gateway());
    let path = folder.path();
    let all = |more: &[&str]| render(path, &[&["all", "--policy", "policy.yaml"], more].concat());

    let missing = all(&["--check", "out"]);
    assert_eq!(missing.code, 1);
    assert!(missing.people.contains("missing: envoyfilter.yaml"), "{missing:?}");
    assert!(!path.join("out").exists(), "a check writes nothing");

    let first = all(&["--output", "out"]);
    assert_eq!(first.code, 0, "{first:?}");
    assert!(first.people.contains("envoyfilter.yaml"), "{first:?}");
    assert_eq!(all(&["--check", "out"]).code, 0);
    assert_eq!(all(&["--output", "out"]).people, "", "what is equal is not written again");

    let file = path.join("out/envoyfilter.yaml");
    let text = fs::read_to_string(&file).unwrap();
    fs::write(&file, text.replace("FAIL_OPEN", "FAIL_CLOSED")).unwrap();
    fs::write(path.join("out/mine.yaml"), "kind: ConfigMap\n").unwrap();
    let rendered_once = text.lines().next().unwrap();
    fs::write(path.join("out/wasmplugin.yaml"), format!("{rendered_once}\nkind: WasmPlugin\n"))
        .unwrap();
    let changed = all(&["--check", "out"]);
    assert_eq!(changed.code, 1);
    assert!(
        changed.data.contains(
            "-            failure_policy: FAIL_CLOSED\n+            failure_policy: FAIL_OPEN"
        ),
        "{}",
        changed.data
    );
    assert!(
        changed.people.contains("differs: envoyfilter.yaml")
            && changed.people.contains("stale: wasmplugin.yaml"),
        "{changed:?}"
    );
    assert!(!changed.people.contains("mine.yaml"), "{changed:?}");

    let shown = all(&["--diff", "out"]);
    assert_eq!((shown.code, shown.data), (0, changed.data));
    let written = all(&["--output", "out"]);
    assert!(written.people.contains("stale: wasmplugin.yaml"), "{written:?}");
    assert_eq!(fs::read_to_string(&file).unwrap(), text);
    assert!(path.join("out/wasmplugin.yaml").exists(), "nothing is deleted");
}

#[test]
fn what_cannot_be_written_is_an_error() {
    let folder = folder(&gateway());
    fs::write(folder.path().join("out"), "a file").unwrap();
    for output in ["out", "policy.yaml/out"] {
        let said = render(folder.path(), &["all", "--policy", "policy.yaml", "--output", output]);
        assert_eq!(said.code, 2, "{said:?}");
        assert!(said.people.contains("cannot ") && said.people.contains(output), "{said:?}");
    }
}

#[test]
fn the_same_policy_gives_the_same_bytes() {
    let (one, other) = (folder(&gateway()), folder(&gateway()));
    let rendered = |folder: &tempfile::TempDir| {
        render(folder.path(), &["envoyfilter", "--policy", "policy.yaml"]).data
    };
    let text = rendered(&one);
    assert!(text.contains("configPatches"), "{text}");
    assert_eq!(text, rendered(&other));
}
