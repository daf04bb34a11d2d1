//! kubectl and its kustomize read the rendered manifests with the meaning that the policy intends.

use std::fs;
use std::path::{Path, PathBuf};

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
    patches_fit_deployments,
    patches_fit_jobs,
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

/// A folder with the output of `laststream render all`.
fn rendered(policy: &str, folder: &str) -> Outcome<(User, PathBuf)> {
    let user = User::new()?;
    user.run(&["render", "all", "--policy", "-", "--output-dir", folder], policy)?.expect(0)?;
    let home = user.path("");
    Ok((user, home))
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
    let (_user, folder) = rendered(&policy, "base")?;
    let other = "f".repeat(64);
    let remote = |index: usize| {
        format!("/spec/configPatches/{index}/patch/value/typed_config/config/vm_config/code/remote")
    };
    let mut patch = vec![json!({
        "op": "replace", "path": "/spec/workloadSelector/labels", "value": { "app": "edge" },
    })];
    for index in [0, 1] {
        patch.push(json!({
            "op": "replace", "path": remote(index) + "/http_uri/uri",
            "value": format!("oci://h/r@sha256:{other}"),
        }));
        patch.push(json!({ "op": "replace", "path": remote(index) + "/sha256", "value": other }));
    }
    let patches =
        json!([{ "target": { "kind": "EnvoyFilter" }, "patch": json!(patch).to_string() }]);
    overlay(&folder, &json!({ "resources": ["base"], "namespace": "edge", "patches": patches }))?;
    let built = kubectl(&["kustomize", text(&folder)?], "")?;
    ensure_eq!(built.matches(&other).count(), 4, "digests in {built}");
    ensure!(
        !built.contains(DIGEST) && built.contains("namespace: edge") && built.contains("app: edge"),
        "{built}"
    );
    Ok(())
}

const DEPLOYMENT: &str = r#"{
    "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "shop"},
    "spec": {"template": {
        "metadata": {"labels": {"app": "shop"}},
        "spec": {"containers": [{"name": "app", "image": "app"}]}
    }}
}"#;

/// The patches for pods fit a Deployment, one after the other, with kustomize and with kubectl.
fn patches_fit_deployments() -> Outcome {
    for (sidecar, hook) in [
        ("{workload: shop}", "lifecycle.pod.yaml"),
        ("{workload: shop, native: true}", "lifecycle.native-sidecar.yaml"),
    ] {
        let policy = format!(
            "namespace: shop\nmodule: /a.wasm\nplacement: {{sidecar: {sidecar}}}\n\
             drain: {{longest_request: 60s, exit_on_zero: true}}\n"
        );
        let (_user, folder) = rendered(&policy, ".")?;
        fs::write(folder.join("deployment.yaml"), DEPLOYMENT)?;
        let target = json!({ "kind": "Deployment", "name": "shop" });
        let patches = json!([
            { "path": hook, "target": target }, { "path": "proxy-config.yaml", "target": target },
        ]);
        overlay(
            &folder,
            &json!({ "resources": ["envoyfilter.yaml", "deployment.yaml"], "patches": patches }),
        )?;
        is_patched(&kubectl(&["kustomize", text(&folder)?], "")?)?;
        let (file, patch) = (folder.join("deployment.yaml"), folder.join(hook));
        let patched = kubectl(
            &["patch", "--local", "-f", text(&file)?, "--patch-file", text(&patch)?, "-o", "json"],
            "",
        )?;
        ensure!(patched.contains("pilot-agent"), "{patched}");
    }
    Ok(())
}

fn is_patched(built: &str) -> Outcome {
    let documents: Vec<Value> = serde_saphyr::from_multiple(built)?;
    let deployment = documents
        .iter()
        .find(|document| document["kind"] == "Deployment")
        .context("a Deployment")?;
    let pod = &deployment["spec"]["template"];
    ensure_eq!(pod["spec"]["terminationGracePeriodSeconds"], 70, "the grace period");
    let containers = pod["spec"]["containers"].as_array().context("containers")?;
    let named = |name: &str| {
        containers.iter().find(|container| container["name"] == name).context("a container")
    };
    ensure_eq!(
        named("istio-proxy")?["lifecycle"]["preStop"]["exec"]["command"][0],
        "pilot-agent",
        "the hook in {built}"
    );
    ensure_eq!(named("app")?["image"], "app", "the app in {built}");
    let config = pod["metadata"]["annotations"]["proxy.istio.io/config"]
        .as_str()
        .context("the annotation")?;
    let config: Value = serde_saphyr::from_str(config)?;
    ensure_eq!(config["drainDuration"], "95s", "the annotation");
    ensure_eq!(
        config["proxyMetadata"]["EXIT_ON_ZERO_ACTIVE_CONNECTIONS"],
        "true",
        "the annotation"
    );
    Ok(())
}

/// The patch fits Jobs and CronJobs, and its command is one that `laststream exec` accepts.
fn patches_fit_jobs() -> Outcome {
    for (cron, native) in [(false, false), (true, true)] {
        let policy = format!(
            "namespace: batch\nmodule: /a.wasm\ngate: {{port: 16092}}\n\
             placement: {{sidecar: {{directions: [outbound], native: {native}}}}}\n\
             job: {{name: nightly, cron: {cron}, container: work, command: [/startjob, '--rows', \
             'on'], program_image: tools}}\n"
        );
        let (user, folder) = rendered(&policy, ".")?;
        fs::write(folder.join("object.yaml"), format!("---\n{}", job_object(cron)))?;
        overlay(
            &folder,
            &json!({ "resources": ["object.yaml"], "patches": [{ "path": "job.yaml" }] }),
        )?;
        let built: Value = serde_saphyr::from_str(&kubectl(&["kustomize", text(&folder)?], "")?)?;
        let job = if cron { &built["spec"]["jobTemplate"]["spec"] } else { &built["spec"] };
        let container = &job["template"]["spec"]["containers"][0];
        ensure_eq!(container["name"], "work", "the container in {built}");
        ensure_eq!(container["image"], "work", "the container in {built}");
        let init = &job["template"]["spec"]["initContainers"][0];
        ensure_eq!(init["image"], "tools", "the init container in {built}");
        let command: Vec<&str> = container["command"]
            .as_array()
            .context("a command")?
            .iter()
            .filter_map(Value::as_str)
            .collect();
        let own = command.iter().position(|word| *word == "--").context("the app's own command")?;
        let (flags, own) = command.split_at(own);
        ensure_eq!(own, ["--", "/startjob", "--rows", "on"], "the app's own command in {built}");
        ensure_eq!(flags[..2], ["/opt/laststream/laststream", "exec"], "the command in {built}");
        ensure_eq!(flags.contains(&"--end-proxy=never"), native, "the flags in {built}");
        user.run(&[&flags[1..], &["--help"]].concat(), "")?.expect(0)?;
    }
    Ok(())
}

fn job_object(cron: bool) -> Value {
    let container = json!({ "name": "work", "image": "work" });
    let pod = json!({ "spec": { "restartPolicy": "Never", "containers": [container] } });
    let job = json!({ "template": pod });
    let (kind, spec) = if cron {
        ("CronJob", json!({ "schedule": "@daily", "jobTemplate": { "spec": job } }))
    } else {
        ("Job", job)
    };
    let metadata = json!({ "name": "nightly", "namespace": "batch" });
    json!({ "apiVersion": "batch/v1", "kind": kind, "metadata": metadata, "spec": spec })
}

fn overlay(folder: &Path, kustomization: &Value) -> Outcome {
    Ok(fs::write(folder.join("kustomization.yaml"), kustomization.to_string())?)
}
