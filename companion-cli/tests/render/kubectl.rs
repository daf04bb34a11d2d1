//! What kubectl and its kustomize read is what was meant.

use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::LazyLock;

use serde_json::{Value, json};

use crate::support::{DIGEST, folder, gateway, laststream, manifests, render, render_policy, said};

static PROGRAM: LazyLock<PathBuf> = LazyLock::new(|| {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/tools/program");
    let output = Command::new(&script).arg("kubectl").output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap().trim().into()
});

/// Runs kubectl, which is fetched where there is none.
fn kubectl(arguments: &[&str], input: &str) -> String {
    let mut command = Command::new(&*PROGRAM);
    let mut child = command.args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let _ = child.stdin.take().unwrap().write_all(input.as_bytes()); // who has heard enough need not read it all
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "kubectl {arguments:?}: {}\n{input}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

/// An object as kubectl understands it, but for the label that made kubectl read it.
fn understood(yaml: &str) -> Value {
    let text = kubectl(&["label", "--local", "-f", "-", "read=by-kubectl", "-o", "json"], yaml);
    let mut value: Value = serde_json::from_str(&text).unwrap();
    value["metadata"]["labels"].as_object_mut().unwrap().remove("read").unwrap();
    value
}

const TRAPS: &[&str] = &[
    "on",
    "off",
    "yes",
    "No",
    "y",
    "N",
    "true",
    "null",
    "~",
    "",
    "1_000",
    "0o7",
    "012",
    "0x1f",
    "1e3",
    ".inf",
    "12:30:45",
    "1:30",
    "2024-01-01",
    "=",
    "<<",
    "!",
    "-",
    "- a",
    "a: b",
    "a #b",
    "'",
    "\"",
    "\\",
    "a\nb",
    "\t",
    "é",
    "\u{85}",
    "\u{2028}",
    "%a",
    "@a",
    "`a",
    "{",
    "[",
    "&a",
    "*a",
    "|",
    ">",
    "? a",
    "-1",
    "+1",
    "1.0",
    " a ",
];

#[test]
fn traps_are_read_as_they_were_meant() {
    let headers: Vec<Value> = TRAPS.iter().map(|trap| json!({ "name": "x-trap", "exact": trap })).collect();
    let labels: Value = ["on", "yes", "1_000", "012", "1e3", "2024-01-01", "null", "y", ""]
        .iter()
        .map(|trap| (format!("l{trap}"), json!(trap)))
        .collect::<serde_json::Map<_, _>>()
        .into();
    let policy = json!({
        "name": "on", "namespace": "012", "labels": labels, "module": format!("oci://h/r@{DIGEST}"),
        "placement": { "gateway": { "selector": { "istio": "1e3", "n": "no" } } },
        "count": { "exclude": { "headers": headers } },
    });
    let said = render_policy(&policy.to_string(), &["wasmplugin"]);
    assert_eq!(said.code, 0, "{said:?}");
    let plugin = understood(&said.data);
    assert_eq!(plugin["metadata"], json!({ "name": "on", "namespace": "012", "labels": labels }));
    assert_eq!(plugin["spec"]["selector"]["matchLabels"], json!({ "istio": "1e3", "n": "no" }));
    assert_eq!(plugin["spec"]["pluginConfig"]["count"]["exclude"]["headers"], json!(headers));

    let said = render_policy(&policy.to_string(), &["envoyfilter"]);
    let filter = understood(&said.data);
    let told = filter.pointer("/spec/configPatches/0/patch/value/typed_config/config/configuration/value").unwrap();
    let told: Value = serde_json::from_str(told.as_str().unwrap()).unwrap();
    assert_eq!(told["count"]["exclude"]["headers"], json!(headers), "what the module is told");
}

#[test]
fn every_manifest_builds() {
    for (name, path) in manifests().into_iter().filter(|(_, path)| path.join("kustomization.yaml").exists()) {
        let built = kubectl(&["kustomize", path.to_str().unwrap()], "");
        assert!(built.contains("laststream"), "{name}: {built}");
    }
}

/// What differs between clusters can be patched by path.
#[test]
fn overlays_change_selector_namespace_and_digest() {
    let folder = folder(&gateway());
    assert_eq!(render(folder.path(), &["all", "--policy", "policy.yaml", "--output", "base"]).code, 0);
    let other = "f".repeat(64);
    let remote = |index: usize| format!("/spec/configPatches/{index}/patch/value/typed_config/config/vm_config/code/remote");
    let mut patch = vec![json!({ "op": "replace", "path": "/spec/workloadSelector/labels", "value": { "app": "edge" } })];
    for index in [0, 1] {
        patch.push(json!({ "op": "replace", "path": remote(index) + "/http_uri/uri", "value": format!("oci://h/r@sha256:{other}") }));
        patch.push(json!({ "op": "replace", "path": remote(index) + "/sha256", "value": other }));
    }
    let patches = json!([{ "target": { "kind": "EnvoyFilter" }, "patch": json!(patch).to_string() }]);
    overlay(folder.path(), &json!({ "resources": ["base"], "namespace": "edge", "patches": patches }));
    let built = kubectl(&["kustomize", folder.path().to_str().unwrap()], "");
    assert_eq!(built.matches(&other).count(), 4, "{built}");
    assert!(!built.contains(DIGEST) && built.contains("namespace: edge") && built.contains("app: edge"), "{built}");
}

/// The patches for pods fit a Deployment, one after the other, with kustomize and with kubectl.
#[test]
fn patches_fit_deployments() {
    const DEPLOYMENT: &str = r#"{"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "shop"}, "spec": {"template": {
        "metadata": {"labels": {"app": "shop"}}, "spec": {"containers": [{"name": "app", "image": "app"}]}}}}"#;
    for (sidecar, hook) in [("{workload: shop}", "lifecycle.pod.yaml"), ("{workload: shop, native: true}", "lifecycle.native-sidecar.yaml")]
    {
        let folder = folder(&format!(
            "namespace: shop\nmodule: /a.wasm\nplacement: {{sidecar: {sidecar}}}\ndrain: {{longest_request: 60s, exit_on_zero: true}}\n"
        ));
        let path = folder.path();
        assert_eq!(render(path, &["all", "--policy", "policy.yaml", "--output", "."]).code, 0);
        fs::write(path.join("deployment.yaml"), DEPLOYMENT).unwrap();
        let target = json!({ "kind": "Deployment", "name": "shop" });
        overlay(
            path,
            &json!({ "resources": ["envoyfilter.yaml", "deployment.yaml"], "patches": [{ "path": hook, "target": target }, { "path": "proxy-config.yaml", "target": target }] }),
        );
        let built = kubectl(&["kustomize", path.to_str().unwrap()], "");
        let documents: Vec<Value> = serde_saphyr::from_multiple(&built).unwrap();
        let deployment = documents.iter().find(|document| document["kind"] == "Deployment").unwrap();
        let pod = &deployment["spec"]["template"];
        assert_eq!(pod["spec"]["terminationGracePeriodSeconds"], 70);
        let containers = pod["spec"]["containers"].as_array().unwrap();
        let named = |name: &str| containers.iter().find(|container| container["name"] == name).unwrap();
        assert_eq!(named("istio-proxy")["lifecycle"]["preStop"]["exec"]["command"][0], "pilot-agent", "{built}");
        assert_eq!(named("app")["image"], "app", "{built}");
        let config: Value = serde_saphyr::from_str(pod["metadata"]["annotations"]["proxy.istio.io/config"].as_str().unwrap()).unwrap();
        assert_eq!(config["drainDuration"], "95s");
        assert_eq!(config["proxyMetadata"]["EXIT_ON_ZERO_ACTIVE_CONNECTIONS"], "true");
        let patched = kubectl(
            &[
                "patch",
                "--local",
                "-f",
                path.join("deployment.yaml").to_str().unwrap(),
                "--patch-file",
                path.join(hook).to_str().unwrap(),
                "-o",
                "json",
            ],
            "",
        );
        assert!(patched.contains("pilot-agent"), "{patched}");
    }
}

/// The patch fits Jobs and CronJobs, and what it runs are arguments that `laststream exec` takes.
#[test]
fn patches_fit_jobs() {
    for (cron, native) in [(false, false), (true, true)] {
        let folder = folder(&format!(
            "namespace: batch\nmodule: /a.wasm\ngate: {{port: 15092}}\nplacement: {{sidecar: {{directions: [outbound], native: {native}}}}}\n\
             job: {{name: nightly, cron: {cron}, container: work, command: [/startjob, '--rows', 'on'], program_image: tools}}\n"
        ));
        let path = folder.path();
        assert_eq!(render(path, &["all", "--policy", "policy.yaml", "--output", "."]).code, 0);
        let pod = json!({ "spec": { "restartPolicy": "Never", "containers": [{ "name": "work", "image": "work" }] } });
        let job = json!({ "template": pod });
        let (kind, spec) = if cron { ("CronJob", json!({ "schedule": "@daily", "jobTemplate": { "spec": job } })) } else { ("Job", job) };
        let object =
            json!({ "apiVersion": "batch/v1", "kind": kind, "metadata": { "name": "nightly", "namespace": "batch" }, "spec": spec });
        fs::write(path.join("object.yaml"), format!("---\n{object}")).unwrap();
        overlay(path, &json!({ "resources": ["object.yaml"], "patches": [{ "path": "job.yaml" }] }));
        let built: Value = serde_saphyr::from_str(&kubectl(&["kustomize", path.to_str().unwrap()], "")).unwrap();
        let job = if cron { &built["spec"]["jobTemplate"]["spec"] } else { &built["spec"] };
        let container = &job["template"]["spec"]["containers"][0];
        assert_eq!((&container["name"], &container["image"]), (&json!("work"), &json!("work")), "{built}");
        assert_eq!(job["template"]["spec"]["initContainers"][0]["image"], "tools", "{built}");
        let command: Vec<&str> = container["command"].as_array().unwrap().iter().map(|word| word.as_str().unwrap()).collect();
        let (flags, own) = command.split_at(command.iter().position(|word| *word == "--").unwrap());
        assert_eq!(own, ["--", "/startjob", "--rows", "on"], "{built}");
        assert_eq!(flags[..2], ["/opt/laststream/laststream", "exec"], "{built}");
        assert_eq!(flags.contains(&"--end-proxy=never"), native, "{built}");
        let taken = said(laststream().args(&flags[1..]).arg("--help"));
        assert_eq!(taken.code, 0, "{taken:?}");
    }
}

fn overlay(folder: &Path, kustomization: &Value) {
    fs::write(folder.join("kustomization.yaml"), kustomization.to_string()).unwrap();
}
