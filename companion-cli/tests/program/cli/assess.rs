//! `laststream assess` over files: its outputs, its exit codes.

use std::fs;
use std::path::Path;

use kit::Outcome;
use kit::command::CommandOutput;

use crate::cli::support::laststream;

const GATEWAY: &str = "\
apiVersion: apps/v1
kind: Deployment
metadata: {name: edge, namespace: ingress}
spec:
  selector: {matchLabels: {istio: ingressgateway}}
  template:
    metadata:
      labels: {istio: ingressgateway}
      annotations: {inject.istio.io/templates: gateway}
    spec:
      containers: [{name: istio-proxy, image: auto}]
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: tool, namespace: ingress}
spec:
  selector: {matchLabels: {app: tool}}
  template:
    metadata: {labels: {app: tool}}
    spec:
      containers: [{name: tool, image: tool:1}]
";

fn assess(folder: &Path, arguments: &[&str]) -> Outcome<CommandOutput> {
    laststream(folder, [&["assess", "mesh.yaml"], arguments].concat())
}

#[test]
fn what_the_next_stop_cuts_is_told_in_three_formats() -> Outcome {
    let folder = tempfile::tempdir()?;
    let folder = folder.path();
    fs::write(folder.join("mesh.yaml"), GATEWAY)?;
    let text = assess(folder, &[])?.expect(0)?;
    let text = text.stdout_contains("Deployment ingress/edge  chart gateway  30 s   5 s *")?;
    let text = text.stdout_contains("yes: what takes longer than 5 s is cut")?;
    let text = text.stdout_contains("next: laststream render all --policy policy.yaml")?;
    let text = text.stderr_contains("1 workload with a proxy. Does laststream help? 1 yes")?;
    text.stderr_contains("No proxy was seen in 1 workload")?;
    let markdown = assess(folder, &["-o", "markdown"])?.expect(0)?;
    markdown.stdout_contains("| Deployment ingress/edge | chart gateway |")?;
    let json = assess(folder, &["-o", "json"])?.expect(0)?.json()?;
    let row = &json["workloads"][0];
    assert_eq!((row["longest_request_ms"].as_u64(), row["line"].as_u64()), (Some(5000), Some(1)));
    assert_eq!(json["without_proxy"], 1);
    Ok(())
}

#[test]
fn a_lost_request_can_fail_a_pipeline() -> Outcome {
    let folder = tempfile::tempdir()?;
    let folder = folder.path();
    fs::write(folder.join("mesh.yaml"), GATEWAY)?;
    for (arguments, code) in [
        (&["--fail-on", "lost=10s"][..], 1),
        (&["--fail-on", "lost=5s"], 0),
        (&["--fail-on", "10s"], 64),
        (&["--fail-on", "lost=10"], 64),
        (&["-A"], 64),
        (&["--cluster"], 64),
        (&["nowhere.yaml"], 2),
    ] {
        assess(folder, arguments)?.expect(code)?;
    }
    laststream(folder, ["assess"])?.expect(64)?;
    fs::write(folder.join("mesh.yaml"), "hello: world\n")?;
    let said = assess(folder, &[])?.expect(0)?;
    assert_eq!((said.stdout.as_str(), said.stderr.trim()), ("", "0 workloads with a proxy"));
    fs::write(folder.join("chart.yaml"), "a: {{ .Values.a }}: b\n")?;
    let said = assess(folder, &["chart.yaml"])?.expect(2)?;
    said.stderr_contains("cannot read chart.yaml, line 1")?.stderr_contains("no workload with")?;
    fs::write(folder.join("mesh.yaml"), GATEWAY)?;
    assess(folder, &["chart.yaml"])?.expect(0)?.stderr_contains("cannot read chart.yaml")?;
    Ok(())
}
