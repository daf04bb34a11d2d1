//! `laststream render` as people and pipelines use it, in real folders.

mod folders;
mod usage;

use std::path::{Path, PathBuf};
use std::process::Command;

use kit::Outcome;
use kit::command::{CommandOutput, run_with_input};
use tempfile::TempDir;

use crate::cli::support::{PROGRAM, laststream};

/// `laststream render …`, in a folder.
fn render(folder: &Path, arguments: &[&str]) -> Outcome<CommandOutput> {
    laststream(folder, ["render"].iter().chain(arguments))
}

/// The same, with a policy on standard input.
fn render_policy(policy: &str, arguments: &[&str]) -> Outcome<CommandOutput> {
    let mut command = Command::new(PROGRAM);
    command.arg("render").args(arguments).args(["--policy", "-"]);
    run_with_input(&mut command, policy)
}

/// A folder with this `policy.yaml`.
fn folder(policy: &str) -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("policy.yaml"), policy).unwrap();
    folder
}

/// The rendered folders of `envoyfilter-manifests`, and their names.
fn manifests() -> Vec<(String, PathBuf)> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../envoyfilter-manifests");
    let folders = std::fs::read_dir(root)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.join("policy.yaml").is_file());
    let mut folders: Vec<_> = folders
        .map(|path| (path.file_name().unwrap().to_str().unwrap().to_owned(), path))
        .collect();
    folders.sort();
    assert!(folders.len() >= 7, "{folders:?}");
    folders
}

const DIGEST: &str = "sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";

/// The shortest policy that can be rendered in every way that a gateway knows.
fn gateway() -> String {
    format!(
        "namespace: istio-ingress\n\
         module: oci://ghcr.io/example/laststream@{DIGEST}\n\
         forwarded_proto:\n  \
           presets: [aws_alb]\n  \
           trust: {{peers: [10.0.0.0/16]}}\n"
    )
}
