//! M1: the commands of README.md's installation, of the tutorial, docs/install and docs/operate.md,
//! word for word and in order. Only the names of the registry and of namespaces differ.

use super::stage::{Stage, WITNESS, named};
use crate::agent::{Agent, Proxy};
use crate::objects::deployment;
use crate::program::ask;
use crate::seen::row;
use kit::command::CommandOutput;
use kit::prelude::*;

/// The namespace and the label that README.md gives its gateway.
const NAMESPACE: &str = "istio-ingress";
const SELECTOR: &str = "ingressgateway";
const NATIVE: &str = "sidecar.istio.io/nativeSidecar";
const HERE_DOCUMENT: &str = "cat > policy.yaml <<'E'\n";

const TUTORIAL: &str = "docs/tutorial.md";
const OPERATE: &str = "docs/operate.md";
const JOBS: Page = Page { file: "docs/install/jobs.md", policy: POLICY, commands: "## 3. Render" };
/// The headings of the pages in docs/install.
const PUBLISH: &str = "## 1. Get the program";
const POLICY: &str = "## 2. Write the policy";

/// The page for a kind of proxy, with the headings of its policy and of the commands that apply it.
struct Page {
    file: &'static str,
    policy: &'static str,
    commands: &'static str,
}

impl Page {
    const fn sidecar(heading: &'static str) -> Self {
        Self { file: "docs/install/sidecar.md", policy: heading, commands: heading }
    }
}

pub(super) async fn as_documented() -> Outcome {
    let stage = Stage { selector: SELECTOR, ..Stage::new(NAMESPACE).await? };
    let script = block(&stage, "README.md", "## Install in Istio", "sh")?;
    let (before, rest) = script.split_once(HERE_DOCUMENT).context("no policy in README.md")?;
    let (policy, after) = rest.split_once("\nE\n").context("the policy has no end")?;
    stage.apply(&stage.gateway_objects()?).await?;
    let former = gateway(&stage, &json!({})).await?;
    stage.answers(200).await?;

    run(&stage, before).await?;
    stage.user.file("policy.yaml", policy)?;
    let (commands, upgrade) = after.split_once("helm ").context("no helm in README.md")?;
    run(&stage, commands).await?;
    let values = values(&stage, upgrade)?;
    former.stop().await?; // `helm upgrade` replaces the pod
    let _gateway = gateway(&stage, &values).await?;
    // Wait for the counter: a request that comes before the module is not counted.
    status_with(&stage, |status| status.contains("count     exact, 3 counters")).await?;
    stage.get("/").await?.expect(200)?;
    works(&stage).await?;
    row(
        "M1",
        "the commands of README.md, from `laststream push` to `helm upgrade`",
        "every command ends with 0; then `laststream status` says `count exact`",
    );
    stage.user.file("policy.yaml", block(&stage, TUTORIAL, "## 4. Write a policy", "yaml")?)?;
    let commands = block(&stage, TUTORIAL, "## 5. The same on a cluster", "sh")?;
    run(&stage, commands.split("helm ").next().unwrap_or_default()).await?;
    works(&stage).await?;
    row(
        "M1",
        "then the policy and the commands of docs/tutorial.md",
        "every command ends with 0; then `laststream status` says `count exact`",
    );
    run(&stage, &block(&stage, OPERATE, "## Upgrade", "sh")?).await?;
    works(&stage).await?;
    row(
        "M1",
        "then the commands of docs/operate.md for an upgrade",
        "every command ends with 0; then `laststream status` says `count exact`",
    );
    stage.nothing_refused()
}

/// The commands of docs/install for sidecars and for a Job. No pod runs: the API server and
/// Istio's webhook return the pods that they would make.
pub(super) async fn pods_as_documented() -> Outcome {
    for (heading, is_native) in [("## 2. Classic sidecar", false), ("## 2. Native sidecar", true)] {
        let name = if is_native { "install-native" } else { "install-sidecar" };
        let stage = sidecar_as_documented(name, heading, is_native).await?;
        stage.nothing_refused()?;
    }
    job_as_documented().await?.nothing_refused()
}

/// The commands for a sidecar. The namespace and the Deployment `shop` of the documents are called
/// `name` here, because each case has its own namespace.
async fn sidecar_as_documented(
    name: &'static str,
    heading: &'static str,
    is_native: bool,
) -> Outcome<Stage> {
    let stage = Stage::new(name).await?;
    let app = json!({ "name": "app", "image": "example.com/app" });
    let template = json!({
        "metadata": { "labels": { "app": name }, "annotations": { NATIVE: is_native.to_string() } },
        "spec": { "serviceAccountName": name, "containers": [app] },
    });
    stage.apply(&[deployment(name, name, &template)]).await?;
    install(&stage, &Page::sidecar(heading), ("shop", name)).await?;
    let patched = stage.world.cluster.get(name, &format!("deployment/{name}")).await?;
    let pod = stage.made(&patched["spec"]["template"]).await?;
    let list = if is_native { "initContainers" } else { "containers" };
    let proxy = named(&pod["spec"][list], "istio-proxy")?;
    let hook = &proxy["lifecycle"]["preStop"]["exec"]["command"];
    let (hook, grace) = (&hook[1], &pod["spec"]["terminationGracePeriodSeconds"]);
    let annotations = &pod["metadata"]["annotations"];
    ensure!(annotations[WITNESS.0].is_string(), "no annotation: {pod}");
    let seen = if is_native {
        ensure_eq!((hook, grace), (&json!("wait"), &json!(70)), "hook and grace period");
        "the injected proxy has the hook, the pod the annotation"
    } else {
        ensure_eq!((hook, grace), (&Value::Null, &json!(68)), "hook and grace period");
        let config = annotations["proxy.istio.io/config"].as_str().unwrap_or_default();
        ensure!(config.contains("terminationDrainDuration: 66s"), "{annotations}");
        "the pod has the annotations, and the injected proxy no hook"
    };
    let what = format!("the commands of docs/install/sidecar.md, `{heading}`");
    row("M1", what, format!("every command ends with 0; {seen}"));
    Ok(stage)
}

async fn job_as_documented() -> Outcome<Stage> {
    const NAME: &str = "install-job";
    let stage = Stage::new(NAME).await?;
    install(&stage, &JOBS, ("batch", NAME)).await?;
    let container = json!({ "name": "work", "image": "example.com/app" });
    let job = json!({
        "apiVersion": "batch/v1", "kind": "Job",
        "metadata": { "name": "nightly", "namespace": NAME },
        "spec": { "template": { "spec": {
            "serviceAccountName": NAME, "restartPolicy": "Never", "containers": [container],
        } } },
    });
    stage.user.file("nightly.yaml", job.to_string())?;
    let patched =
        json!({ "resources": ["nightly.yaml"], "patches": [{ "path": "laststream/job.yaml" }] });
    stage.user.file("kustomization.yaml", patched.to_string())?;
    let folder = stage.user.path("").display().to_string();
    let built = stage.world.cluster.run(&["kustomize", &folder]).await?;
    let dry_run = ["create", "--dry-run=server", "-f", "-"];
    stage.world.cluster.kubectl_with(&dry_run, &built).await?.expect(0)?;
    let job: Value = serde_saphyr::from_str(&built)?;
    let pod = stage.made(&job["spec"]["template"]).await?;
    let command = &named(&pod["spec"]["containers"], "work")?["command"];
    ensure_eq!([&command[0], &command[1]], ["/opt/laststream/laststream", "exec"], "the command");
    row(
        "M1",
        "the commands of docs/install/jobs.md, and its patch in a kustomization",
        "every command ends with 0; the injected pod runs the command through `laststream exec`",
    );
    Ok(stage)
}

/// Pushes, writes the policy and runs the commands of a page. The second of `names` replaces the
/// first.
async fn install(stage: &Stage, page: &Page, names: (&str, &str)) -> Outcome {
    run(stage, &block(stage, page.file, PUBLISH, "sh")?).await?;
    let policy = block(stage, page.file, page.policy, "yaml")?;
    stage.user.file("policy.yaml", policy.replace(names.0, names.1))?;
    let commands = block(stage, page.file, page.commands, "sh")?;
    run(stage, &commands.replace(names.0, names.1)).await
}

/// The first block of this kind in a section, each command in one line.
fn block(stage: &Stage, file: &str, heading: &str, kind: &str) -> Outcome<String> {
    let text = std::fs::read_to_string(kit::workspace().join(file))?;
    let section = text.split_once(&format!("\n{heading}")).context("no such section")?.1;
    let section = section.split("\n## ").next().unwrap_or_default();
    let (_, block) = section.split_once(&format!("```{kind}\n")).context("no such block")?;
    let (block, _) = block.split_once("```").context("the block has no end")?;
    let registry = stage.world.registry.name();
    Ok(block.replace("registry.example.com", &registry).replace(" \\\n", " "))
}

/// Runs commands as a shell would.
async fn run(stage: &Stage, commands: &str) -> Outcome {
    for line in commands.lines() {
        let words: Vec<&str> = line.split_whitespace().collect();
        let said: CommandOutput = match words.split_first() {
            Some((&"laststream", arguments)) => stage.laststream(arguments, "")?,
            Some((&"kubectl", arguments)) => {
                let mut command = stage.world.cluster.kubectl_command(arguments)?;
                command.current_dir(stage.user.path("")); // the documents have relative paths
                ask(command, "").await?
            }
            _ => bail!("a command that this case does not know: {line}"),
        };
        said.expect(0).with_context(|| line.to_owned())?;
    }
    Ok(())
}

/// The values of all files that `helm upgrade` gets, merged.
fn values(stage: &Stage, upgrade: &str) -> Outcome<Value> {
    let words: Vec<&str> = upgrade.split_whitespace().collect();
    let mut all = serde_json::Map::new();
    for pair in words.windows(2).filter(|pair| pair[0] == "--values") {
        let text = std::fs::read_to_string(stage.user.path(pair[1]))?;
        all.extend(serde_saphyr::from_str::<serde_json::Map<String, Value>>(&text)?);
    }
    ensure_eq!(all.len(), 2, "values for the chart: {all:?}");
    Ok(all.into())
}

/// The gateway's proxy, with the annotations that the chart and Istio's webhook make of the values.
async fn gateway(stage: &Stage, values: &Value) -> Outcome<Agent> {
    let container = json!({ "name": "istio-proxy", "image": "auto" });
    let mut annotations = json!({ "inject.istio.io/templates": "gateway" });
    if let (Some(all), Some(more)) =
        (annotations.as_object_mut(), values["podAnnotations"].as_object())
    {
        all.extend(more.clone());
    }
    let template = json!({
        "metadata": { "labels": { "istio": SELECTOR }, "annotations": annotations },
        "spec": {
            "serviceAccountName": stage.name, "containers": [container],
            "terminationGracePeriodSeconds": values["terminationGracePeriodSeconds"],
        },
    });
    let made = stage.made(&template).await?;
    let annotations = made["metadata"]["annotations"].as_object().context("no annotations")?;
    let annotations: Vec<(&str, &str)> =
        annotations.iter().filter_map(|(name, value)| Some((&**name, value.as_str()?))).collect();
    let labels = &[("istio", SELECTOR)];
    stage.proxy(&Proxy { labels, annotations: &annotations, ..Proxy::default() }).await
}

/// Checks that `laststream status` without flags prints the text that docs/operate.md shows.
async fn works(stage: &Stage) -> Outcome {
    let documented = block(stage, OPERATE, "## What `status` says", "text")?;
    status_with(stage, |status| status.starts_with(&documented))
        .await
        .with_context(|| format!("{OPERATE} shows {documented}"))
}

/// Waits until the output of `laststream status` is as expected.
async fn status_with(stage: &Stage, is_expected: impl Fn(&str) -> bool) -> Outcome {
    let look = async || {
        let said = stage.laststream(&["status"], "")?.expect(0)?;
        ensure!(is_expected(&said.stdout), "{}", said.stdout);
        Ok(())
    };
    wait_for(PATIENCE, "`laststream status`", look).await
}
