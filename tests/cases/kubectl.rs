//! kubectl and its kustomize read the rendered manifests with the meaning that the policy intends.

use std::fs;
use std::path::Path;

use crate::lab::envoyless_cases;
use kit::command::{CommandOutput, run_with_input};
use kit::prelude::*;
use kit::process::guarded;
use kit::programs::program;
use kit::user::User;

envoyless_cases! {
    ambiguous_yaml_words_keep_their_meaning,
    every_manifest_builds,
    overlays_change_selector_namespace_and_digest,
}

const DIGEST: &str = "sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";

/// Runs kubectl, which is downloaded if it is not installed.
fn kubectl(arguments: &[&str], input: &str) -> Outcome<String> {
    let output = run_with_input(guarded(program("kubectl")?).args(arguments), input)?;
    Ok(output.expect(0).with_context(|| format!("kubectl {arguments:?}: {input}"))?.stdout)
}

/// An object as kubectl parses it, without the label that was added to make kubectl read it.
fn understood(yaml: &str) -> Outcome<Value> {
    let text = kubectl(&["label", "--local", "-f", "-", "read=by-kubectl", "-o", "json"], yaml)?;
    let mut value: Value = serde_json::from_str(&text)?;
    value["metadata"]["labels"]
        .as_object_mut()
        .and_then(|labels| labels.remove("read"))
        .context("the label")?;
    Ok(value)
}

/// `laststream render KIND`, with a policy on standard input.
fn render(policy: &str, kind: &str) -> Outcome<CommandOutput> {
    User::new()?.run(&["render", kind, "--policy", "-"], policy)?.expect(0)
}

fn text(path: &Path) -> Outcome<&str> {
    path.to_str().context("a path in UTF-8")
}

/// Words that YAML 1.1 or 1.2 reads as something else than the text.
const TRAPS: &str = "on off yes No y N true null ~ 1_000 0o7 012 0x1f 1e3 .inf 12:30:45 1:30 \
    2024-01-01 = << ! - ' \" \\ é \u{85} \u{2028} %a @a `a { [ &a *a | > -1 +1 1.0";
const TRAPS_WITH_BLANKS: [&str; 7] = ["- a", "a: b", "a #b", "a\nb", "\t", "? a", " a "];

fn ambiguous_yaml_words_keep_their_meaning() -> Outcome {
    let headers: Vec<Value> = TRAPS
        .split(' ')
        .chain(TRAPS_WITH_BLANKS)
        .map(|trap| json!({ "name": "x-trap", "exact": trap }))
        .collect();
    let labels: Value = ["on", "yes", "1_000", "012", "1e3", "2024-01-01", "null", "y", ""]
        .iter()
        .map(|trap| (format!("l{trap}"), json!(trap)))
        .collect::<serde_json::Map<_, _>>()
        .into();
    let policy = json!({
        "name": "on", "namespace": "012", "labels": labels, "module": format!("oci://h/r@{DIGEST}"),
        "placement": { "gateway": { "selector": { "istio": "1e3", "n": "no" } } },
        "count": { "exclude": { "headers": headers } },
    })
    .to_string();
    let plugin = understood(&render(&policy, "wasmplugin")?.stdout)?;
    ensure_eq!(
        plugin["metadata"],
        json!({ "name": "on", "namespace": "012", "labels": labels }),
        "metadata"
    );
    ensure_eq!(
        plugin["spec"]["selector"]["matchLabels"],
        json!({ "istio": "1e3", "n": "no" }),
        "labels of the selector"
    );
    ensure_eq!(
        plugin["spec"]["pluginConfig"]["count"]["exclude"]["headers"],
        json!(headers),
        "headers of the plugin"
    );

    let filter = understood(&render(&policy, "envoyfilter")?.stdout)?;
    let told = filter
        .pointer("/spec/configPatches/0/patch/value/typed_config/config/configuration/value")
        .and_then(Value::as_str);
    let told: Value = serde_json::from_str(told.context("what the module is told")?)?;
    ensure_eq!(told["count"]["exclude"]["headers"], json!(headers), "what the module is told");
    Ok(())
}

fn every_manifest_builds() -> Outcome {
    let mut built = 0;
    for entry in fs::read_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("envoyfilter-manifests"))?
    {
        let folder = entry?.path();
        if folder.join("kustomization.yaml").exists() {
            let text = kubectl(&["kustomize", text(&folder)?], "")?;
            ensure!(text.contains("laststream"), "{}: {text}", folder.display());
            built += 1;
        }
    }
    ensure!(built >= 5, "manifests with a kustomization: {built}");
    Ok(())
}

/// An overlay can patch, by path, the values that differ between clusters.
fn overlays_change_selector_namespace_and_digest() -> Outcome {
    let policy = format!(
        "namespace: istio-ingress\nmodule: oci://ghcr.io/example/laststream@{DIGEST}\n\
         forwarded_proto:\n  presets: [aws_alb]\n  trust: {{peers: [10.0.0.0/16]}}\n"
    );
    let user = User::new()?;
    user.run(&["render", "all", "--policy", "-", "--output-dir", "base"], &policy)?.expect(0)?;
    let other = "f".repeat(64);
    let remote = |index: usize| {
        format!("/spec/configPatches/{index}/patch/value/typed_config/config/vm_config/code/remote")
    };
    let mut patch = vec![json!({
        "op": "replace", "path": "/spec/workloadSelector/labels", "value": { "app": "edge" },
    })];
    for index in [0, 1, 2] {
        patch.push(json!({
            "op": "replace", "path": remote(index) + "/http_uri/uri",
            "value": format!("oci://h/r@sha256:{other}"),
        }));
        patch.push(json!({ "op": "replace", "path": remote(index) + "/sha256", "value": other }));
    }
    let patches =
        json!([{ "target": { "kind": "EnvoyFilter" }, "patch": json!(patch).to_string() }]);
    let overlay = json!({ "resources": ["base"], "namespace": "edge", "patches": patches });
    user.file("kustomization.yaml", overlay.to_string())?;
    let built = kubectl(&["kustomize", text(&user.path(""))?], "")?;
    ensure_eq!(built.matches(&other).count(), 6, "digests in {built}");
    ensure!(
        !built.contains(DIGEST) && built.contains("namespace: edge") && built.contains("app: edge"),
        "{built}"
    );
    Ok(())
}
