//! The program's documentation of itself: help with examples that run, completions, manual pages.

use std::fs;
use std::path::Path;
use std::process::Command;

use kit::command::run;
use kit::{Context as _, Outcome};

use crate::cli::support::{PROGRAM, laststream, loadable};

/// Commands whose examples need nothing but files; `build` has tests of its own, the others need a
/// network.
const RUN: [&[&str]; 8] = [
    &["config", "schema"],
    &["config", "check"],
    &["completions"],
    &["inspect"],
    &["man"],
    &["render"],
    &["size"],
    &["version"],
];

/// Every example of these commands works in a folder with the files that they speak of.
#[test]
fn examples_run() -> Outcome {
    let folder = tempfile::tempdir()?;
    prepare(folder.path())?;
    let programs = format!(
        "{}:{}",
        Path::new(PROGRAM).parent().unwrap().display(),
        std::env::var("PATH").unwrap()
    );
    let mut examples = 0;
    for command in RUN {
        let help = laststream(folder.path(), command.iter().chain(&["--help"]))?.expect(0)?.stdout;
        let lines = help
            .lines()
            .skip_while(|line| !line.starts_with("Example"))
            .skip(1)
            .take_while(|line| line.starts_with("  "));
        // Leaves out examples that need a registry or Prometheus, and shells and readers of manual
        // pages that may be missing.
        let is_here = |line: &&str| {
            let absent = ["example.com", "--prometheus", "fish"];
            !absent.iter().any(|word| line.contains(word)) && !line.starts_with("man ")
        };
        for line in lines.map(str::trim).filter(is_here) {
            let (line, _) = line.split_once(" | kubectl").unwrap_or((line, ""));
            // The command before it asks a pod; the folder has the answer.
            let (_, line) = line.rsplit_once("; ").unwrap_or(("", line));
            let mut shell = Command::new("bash");
            shell
                .args(["-euo", "pipefail", "-c", line])
                .current_dir(folder.path())
                .env("PATH", &programs)
                .env("HOME", folder.path());
            run(&mut shell)?.expect(0).with_context(|| line.to_owned())?;
            examples += 1;
        }
    }
    assert!(examples >= 17, "{examples} examples");
    for file in ["policy.schema.json", "deploy/gateway/kustomization.yaml"] {
        assert!(folder.path().join(file).exists(), "{file}");
    }
    let merged = fs::read_to_string(folder.path().join("envoy.yaml"))?;
    assert!(merged.contains("name: laststream-gate"), "{merged}");
    Ok(())
}

/// A bootstrap of the user's.
const BOOTSTRAP: &str = include_str!("../../../../tests/cases/manifests/into.yaml");

/// The policy is the one in the help of `render`.
fn prepare(folder: &Path) -> Outcome {
    let help = laststream(folder, ["render", "--help"])?.stdout;
    let (_, policy) = help.split_once("load balancer:\n").unwrap();
    fs::write(folder.join("policy.yaml"), policy.replace("\n  ", "\n").trim_start())?;
    let plain = "module: /etc/envoy/laststream.wasm\nplacement: {envoy: {}}\n";
    fs::write(folder.join("plain.yaml"), plain)?;
    fs::write(folder.join("envoy.yaml"), BOOTSTRAP)?;
    fs::write(folder.join("configuration.json"), r#"{"scope": "inbound"}"#).unwrap();
    fs::write(folder.join("laststream.wasm"), loadable("")).unwrap();
    let bucket = "istio_request_duration_milliseconds_bucket";
    let page = format!("{bucket}{{le=\"500\"}} 8\n{bucket}{{le=\"+Inf\"}} 10\n");
    fs::write(folder.join("stats.txt"), page)?;
    Ok(())
}

#[test]
fn every_command_has_a_manual_page() -> Outcome {
    let folder = tempfile::tempdir()?;
    laststream(folder.path(), ["man", "pages"])?.expect(0)?;
    let page = |name: &str| {
        fs::read_to_string(folder.path().join("pages").join(name))
            .unwrap_or_else(|error| panic!("{name}: {error}"))
    };
    assert!(page("laststream.1").contains("laststream\\-inspect(1)"));
    let names = "build completions config-check config-schema drain envoy-get exec inspect man \
        prestop push status streams version wait";
    for name in names.split(' ') {
        let page = page(&format!("laststream-{name}.1"));
        assert!(
            page.contains(".ad l\n.SH NAME") && page.contains(".SH EXAMPLES\n.nf\n  "),
            "{name}: {page}"
        );
        assert!(!page.contains("EXTRA"), "{name}: {page}");
    }
    assert!(page("laststream-rollout.1").contains("\n.SH \"EXIT STATUS\"\nExit codes, as"));
    assert!(!page("laststream-render.1").contains("\n.fi\n"), "an example is filled");
    let usage = "\\fBlaststream wait\\fR [OPTIONS]";
    assert!(page("laststream-wait.1").contains(usage), "{}", page("laststream-wait.1"));
    fs::write(folder.path().join("file"), "")?;
    laststream(folder.path(), ["man", "file"])?
        .expect(2)?
        .stderr_contains("cannot write into `file`")?;
    Ok(())
}

#[test]
fn completions_know_the_commands() -> Outcome {
    for shell in ["bash", "elvish", "fish", "powershell", "zsh"] {
        let script = laststream(Path::new("."), ["completions", shell])?.expect(0)?.stdout;
        assert!(script.contains("LASTSTREAM_COMPLETE"), "{shell}: {script}");
    }
    laststream(Path::new("."), ["completions", "csh"])?.expect(64)?;
    Ok(())
}

/// They still work.
#[test]
fn hidden_commands_are_in_no_help_and_no_tip() -> Outcome {
    let folder = tempfile::tempdir()?;
    let said = laststream(folder.path(), ["--help"])?.expect(0)?.stdout;
    for name in ["guarded", "install"] {
        assert!(!said.contains(&format!("\n  {name} ")), "{name}: {said}");
        laststream(folder.path(), [&format!("{name}x")])?
            .expect(64)?
            .hides(&format!("'{name}'"))?;
        laststream(folder.path(), [name, "--help"])?.expect(0)?;
    }
    Ok(())
}
