//! Arguments that contradict each other, and the plugin's name.

use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::Command;

use kit::Outcome;
use kit::command::run;
use kit::fake_server::Answer;
use kit::process::guarded;
use serde_json::json;

use crate::fleet::support::{Cluster, PROGRAM, pod, status};

#[test]
fn contradictions_are_refused() -> Outcome {
    for (arguments, words) in [
        (&["status", "-n", "a", "--gate", "http://127.0.0.1:1"][..], "--gate"),
        (&["status", "--every-gate"], "-A"),
        (&["status", "-o", "wide"], "-A"),
        (&["status", "--trouble"], "-A"),
        (&["status", "-A", "-n", "a"], "--all-namespaces"),
        (&["streams", "-A", "--secret-file", "x"], "--secret-file"),
        (&["drain", "--node", "a"], "--node"),
        (&["drain", "-n", "a"], "name the pods, or select them with `-l`"),
        (&["wait", "-n", "a"], "name the pods, or select them with `-l`"),
        (&["drain", "-l", "", "--yes"], "it would mean all pods"),
        (&["drain", "--yes"], "name the pods, or select them with `-l`"),
        (&["drain", "a", "--gate", "http://127.0.0.1:1"], "--gate"),
        (&["status", "a", "-l", "app=a"], "--selector"),
        (&["status", "deployment/a"], "write `NAME` or `pod/NAME`"),
        (&["rollout", "pod/a"], "deployment/NAME"),
        (&["deletion-cost", "--clear", "--once"], "--once"),
        (&["rollout", "deployment/a?x"], "is not a name in Kubernetes"),
        (&["status", "-n", ""], "is not a name in Kubernetes"),
        (&["status", "-n", "a/../.."], "is not a name in Kubernetes"),
        (&["status", "--node", "a,metadata.name=b"], "is not a name in Kubernetes"),
        (&["render", "schema", "--check", "."], "`--check` has no effect"),
        (&["render", "schema", "--output-dir", "a"], "`--output-dir` has no effect"),
        (&["status", "-A", "--at-a-time", "0"], "--at-a-time"),
        (&["lint", "-n", "shop", "x.yaml"], "the options for a cluster need `--cluster`"),
        (&["lint", "--cluster", "x.yaml"], "--cluster"),
        (&["lint", "--cluster", "--list"], "--cluster"),
        (&["lint", "--cluster", "-A", "-n", "shop"], "--all-namespaces"),
        (&["lint", "--cluster", "-l", ""], "it would mean all pods"),
    ] {
        run(Command::new(PROGRAM).args(arguments))?.expect(64)?.stderr_contains(words)?;
    }
    Ok(())
}

#[test]
fn the_plugin_shows_the_command_as_it_is_typed() -> Outcome {
    let folder = tempfile::tempdir()?;
    let [plugin, completer] =
        ["kubectl-laststream", "kubectl_complete-laststream"].map(|name| folder.path().join(name));
    symlink(PROGRAM, &plugin)?;
    symlink(PROGRAM, &completer)?;
    run(Command::new(&plugin).args(["rollout", "--help"]))?
        .expect(0)?
        .stdout_contains("Usage: kubectl laststream rollout")?
        .stdout_contains("  kubectl laststream rollout deployment/web -n shop")?;
    let said = run(Command::new(&completer).args(["sta"]))?.expect(0)?;
    assert_eq!(said.stdout, "status\n:4\n");
    Ok(())
}

/// Bash calls the function of the script with the words, and reads its candidates.
const COMPLETE: &str = r#"eval "$(laststream completions bash)"
COMP_WORDS=(laststream "$@") COMP_CWORD=$#
_clap_complete_laststream laststream "${@: -1}" "${@: -2:1}"
printf '%s\n' "${COMPREPLY[@]}""#;

#[test]
fn a_shell_completes_names_of_the_cluster() -> Outcome {
    let namespaces = json!({
        "kind": "PartialObjectMetadataList", "apiVersion": "meta.k8s.io/v1", "metadata": {},
        "items": [{ "metadata": { "name": "shop" } }, { "metadata": { "name": "other" } }],
    });
    let cluster = Cluster::with_pods(&[pod("web-1"), pod("db-1")], move |asked| {
        let answer = Answer::new(200).with("content-type", "application/json");
        match asked.path() {
            "/api/v1/namespaces" => answer.body(namespaces.to_string()),
            _ => status(403, "Forbidden", "no"),
        }
    })?;
    for (words, names) in [
        (&["stat"][..], "status"),
        (&["status", "we"], "web-1"),
        (&["wait", "-n", "shop", "d"], "db-1"),
        (&["status", "-n", "other", "we"], ""), // no right there, and no word about it
        (&["status", "--namespace", "sh"], "shop"),
        (&["status", "--context", ""], "test"),
        (&["status", "--context", "prod", "we"], ""),
    ] {
        let folder = Path::new(PROGRAM).parent().unwrap();
        let mut bash = guarded("bash");
        bash.args(["-c", COMPLETE, "bash"]).args(words).env_clear();
        bash.env("PATH", format!("{}:/usr/bin:/bin", folder.display()));
        bash.env("HOME", folder).env("KUBECONFIG", cluster.kubeconfig());
        let said = run(&mut bash)?.expect(0)?;
        assert_eq!((said.stdout.trim_end(), said.stderr.as_str()), (names, ""), "{words:?}");
    }
    Ok(())
}
