//! Rendered folders: `envoyfilter-manifests` is up to date; `--check`, `--output-dir` on folders.

use std::fs;

use kit::{Context as _, Outcome};

use super::{folder, gateway, manifests, render};

#[test]
fn the_manifests_are_made_from_their_policies() -> Outcome {
    for (name, path) in manifests() {
        if std::env::var_os("LASTSTREAM_BLESS").is_some() {
            render(&path, &["all", "--policy", "policy.yaml", "--output-dir", "."])?.expect(0)?;
        }
        let output = render(&path, &["all", "--policy", "policy.yaml", "--check", "."])?
            .expect(0)
            .context("`cargo bless` renders it anew")?;
        assert!(output.stderr.is_empty() && output.stdout.is_empty(), "{name}: {output:?}");
    }
    Ok(())
}

#[test]
fn each_manifest_has_its_readme() {
    let all = fs::read_to_string(manifests()[0].1.join("../README.md")).unwrap();
    for (name, path) in manifests() {
        let words = fs::read_to_string(path.join("README.md")).unwrap().split_whitespace().count();
        assert!(words <= 120, "{name}: {words} words");
        assert!(all.contains(&format!("]({name})")), "{name} is not in the table");
    }
}

#[test]
fn check_reports_missing_changed_and_stale_files_and_writes_nothing() -> Outcome {
    let folder = folder(&gateway());
    let path = folder.path();
    let all = |more: &[&str]| render(path, &[&["all", "--policy", "policy.yaml"], more].concat());

    all(&["--check", "out"])?.expect(1)?.stderr_contains("missing: envoyfilter.yaml")?;
    assert!(!path.join("out").exists(), "a check writes nothing");

    all(&["--output-dir", "out"])?.expect(0)?.stderr_contains("envoyfilter.yaml")?;
    all(&["--check", "out"])?.expect(0)?;
    assert_eq!(all(&["--output-dir", "out"])?.stderr, "", "what is equal is not written again");

    let file = path.join("out/envoyfilter.yaml");
    let text = fs::read_to_string(&file)?;
    fs::write(&file, text.replace("FAIL_OPEN", "FAIL_CLOSED"))?;
    fs::write(path.join("out/mine.yaml"), "kind: ConfigMap\n")?;
    let rendered_once = text.lines().next().unwrap();
    fs::write(path.join("out/wasmplugin.yaml"), format!("{rendered_once}\nkind: WasmPlugin\n"))?;
    let difference =
        "-            failure_policy: FAIL_CLOSED\n+            failure_policy: FAIL_OPEN";
    let changed = all(&["--check", "out"])?
        .expect(1)?
        .stdout_contains(difference)?
        .stderr_contains("differs: envoyfilter.yaml")?
        .stderr_contains("stale: wasmplugin.yaml")?
        .hides("mine.yaml")?;

    assert_eq!(all(&["--diff", "out"])?.expect(0)?.stdout, changed.stdout);
    all(&["--output-dir", "out"])?.stderr_contains("stale: wasmplugin.yaml")?;
    assert_eq!(fs::read_to_string(&file)?, text);
    assert!(path.join("out/wasmplugin.yaml").exists(), "nothing is deleted");
    Ok(())
}

/// People use these names for files of their own.
#[test]
fn a_file_that_was_not_rendered_is_not_replaced() -> Outcome {
    let folder = folder(&gateway());
    let path = folder.path();
    let all = |more: &[&str]| render(path, &[&["all", "--policy", "policy.yaml"], more].concat());
    let file = path.join("out/kustomization.yaml");
    fs::create_dir(path.join("out"))?;
    let own = "# Rendered by another program\nresources: [mine.yaml]\n";
    fs::write(&file, own)?;
    all(&["--output-dir", "out"])?.expect(2)?.stderr_contains(
        "cannot write `out/kustomization.yaml`: it was not rendered by laststream; name another",
    )?;
    assert_eq!(fs::read_to_string(&file)?, own);
    assert_eq!(fs::read_dir(path.join("out"))?.count(), 1, "nothing is half done");
    all(&["--check", "out"])?.expect(1)?.stderr_contains("differs: kustomization.yaml")?;
    all(&["--diff", "out"])?.expect(0)?.stderr_contains("differs: kustomization.yaml")?;

    let mark = "# Rendered by laststream 0.0.9. Change the policy and render again.";
    for earlier in [
        String::new(),
        "\n".to_owned(),
        format!("{mark}\r\nkind: Older\r\n"),
        format!("---\n# A licence\n\n{mark}\nkind: Older\n"),
    ] {
        fs::write(&file, &earlier)?;
        let output = all(&["--output-dir", "out"])?.expect(0)?;
        output.stderr_contains("wrote out/kustomization.yaml")?;
    }
    Ok(())
}

/// `render all` compares the files that it can write itself, and opens no others.
#[test]
fn files_of_other_kinds_are_not_stale() -> Outcome {
    let folder = folder(&gateway());
    let path = folder.path();
    let with_policy =
        |arguments: &[&str]| render(path, &[arguments, &["-p", "policy.yaml"]].concat());
    with_policy(&["all", "--output-dir", "out"])?.expect(0)?.hides("stale")?;
    with_policy(&["statistics", "--output-dir", "out"])?.expect(0)?;
    fs::create_dir(path.join("out/wasmplugin.yaml"))?;
    fs::File::create(path.join("out/data.yaml"))?.set_len(17 << 20)?;
    let same = with_policy(&["all", "--check", "out"])?.expect(0)?;
    assert_eq!((same.stdout.as_str(), same.stderr.as_str()), ("", ""));
    Ok(())
}

#[test]
fn an_unwritable_folder_is_an_error() -> Outcome {
    let folder = folder(&gateway());
    fs::write(folder.path().join("out"), "a file")?;
    for output in ["out", "policy.yaml/out"] {
        render(folder.path(), &["all", "--policy", "policy.yaml", "--output-dir", output])?
            .expect(2)?
            .stderr_contains("cannot ")?
            .stderr_contains(output)?;
    }
    Ok(())
}
