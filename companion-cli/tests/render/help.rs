//! The examples in `--help` work, and so does the policy there.

use std::process::Command;

use kit::Outcome;
use kit::command::run;

use crate::support::{folder, laststream};

#[test]
fn the_examples_run() -> Outcome {
    let help = run(laststream().args(["render", "--help"]))?.stdout;
    let (_, policy) = help.split_once("load balancer:\n").unwrap();
    let folder = folder(
        &policy
            .lines()
            .map(|line| line.strip_prefix("  ").unwrap_or(line).to_owned() + "\n")
            .collect::<String>(),
    );
    let examples: Vec<&str> =
        help.lines().filter_map(|line| line.strip_prefix("  laststream render ")).collect();
    assert!(examples.len() >= 5, "{help}");
    for example in examples {
        let (command, _) = example.split_once(" | kubectl").unwrap_or((example, ""));
        let program = env!("CARGO_BIN_EXE_laststream");
        let line = format!("{program} render {command}");
        run(Command::new("sh").current_dir(folder.path()).args(["-c", &line]))?.expect(0)?;
    }
    assert!(
        folder.path().join("policy.schema.json").exists()
            && folder.path().join("deploy/gateway/kustomization.yaml").exists()
    );
    Ok(())
}
