//! M1: the commands of README.md's installation, word for word and in their order. Only the name
//! of the registry differs.

use serde_json::{Value, json};

use super::stage::{SOON, Stage};
use crate::agent::{Agent, Proxy};
use crate::seen::row;
use kit::command::CommandOutput;
use kit::prelude::*;

/// The namespace and the label that README.md gives its gateway.
const NAMESPACE: &str = "istio-ingress";
const SELECTOR: &str = "ingressgateway";
const HERE_DOCUMENT: &str = "cat > policy.yaml <<'E'\n";

pub(super) async fn as_documented() -> Outcome {
    let stage = Stage { selector: SELECTOR, ..Stage::new(NAMESPACE).await? };
    let script = script(&stage.world.registry.name())?;
    let (before, rest) = script.split_once(HERE_DOCUMENT).context("no policy in README.md")?;
    let (policy, after) = rest.split_once("\nE\n").context("the policy has no end")?;
    stage.apply(&stage.gateway_objects(json!({}))).await?;
    let former = gateway(&stage, &json!({})).await?;
    stage.answers(200).await?;

    run(&stage, before).await?;
    stage.user.file("policy.yaml", policy)?;
    let (commands, upgrade) = after.split_once("helm ").context("no helm in README.md")?;
    run(&stage, commands).await?;
    let values = values(&stage, upgrade)?;
    former.stop().await?; // as `helm upgrade` replaces the pod
    let _gateway = gateway(&stage, &values).await?;
    works(&stage).await?;
    row(
        "M1",
        "the commands of README.md, from `laststream push` to `laststream status`",
        "every command ends with 0; `status` says `count exact`",
    );
    stage.nothing_refused()
}

/// The first block of commands in the section about Istio, one command per line.
fn script(registry: &str) -> Outcome<String> {
    let readme = std::fs::read_to_string(kit::workspace().join("README.md"))?;
    let (_, section) = readme.split_once("\n## Install in Istio").context("no such section")?;
    let (_, block) = section.split_once("```sh\n").context("no commands")?;
    let (block, _) = block.split_once("```").context("the commands have no end")?;
    Ok(block.replace("registry.example.com", registry).replace(" \\\n", " "))
}

/// Runs what a shell would run; the program is already there.
async fn run(stage: &Stage, commands: &str) -> Outcome {
    for line in commands.lines().filter(|line| !line.starts_with("cargo install ")) {
        let words: Vec<&str> = line.split_whitespace().collect();
        let said: CommandOutput = match words.split_first() {
            Some((&"laststream", arguments)) => stage.laststream(arguments, "")?,
            Some((&"kubectl", ["apply", "--kustomize", folder])) => {
                let folder = stage.user.path(folder);
                let folder = folder.to_str().context("a path")?;
                stage.world.cluster.kubectl(&["apply", "--kustomize", folder]).await?
            }
            _ => bail!("README.md has a command that this case does not know: {line}"),
        };
        said.expect(0).with_context(|| line.to_owned())?;
    }
    Ok(())
}

/// The files of values that `helm upgrade` gets, as one.
fn values(stage: &Stage, upgrade: &str) -> Outcome<Value> {
    let words: Vec<&str> = upgrade.split_whitespace().collect();
    let mut all = serde_json::Map::new();
    for pair in words.windows(2).filter(|pair| pair[0] == "--values") {
        let text = std::fs::read_to_string(stage.user.path(pair[1]))?;
        all.extend(serde_saphyr::from_str::<serde_json::Map<String, Value>>(&text)?);
    }
    ensure_eq!(all.len(), 3, "values for the chart: {all:?}");
    Ok(all.into())
}

/// The gateway's proxy, with what the chart and Istio's webhook make of the values.
async fn gateway(stage: &Stage, values: &Value) -> Outcome<Agent> {
    let container =
        json!({ "name": "istio-proxy", "image": "auto", "lifecycle": values["lifecycle"] });
    let mut annotations = json!({ "inject.istio.io/templates": "gateway" });
    if let (Some(all), Some(more)) =
        (annotations.as_object_mut(), values["podAnnotations"].as_object())
    {
        all.extend(more.clone());
    }
    let pod = json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {
            "name": "made", "namespace": NAMESPACE,
            "labels": { "istio": SELECTOR }, "annotations": annotations,
        },
        "spec": {
            "serviceAccountName": stage.name, "containers": [container],
            "terminationGracePeriodSeconds": values["terminationGracePeriodSeconds"],
        },
    });
    let arguments = ["create", "--dry-run=server", "--output", "json", "-f", "-"];
    let said = stage.world.cluster.kubectl_with(&arguments, &pod.to_string()).await?.expect(0)?;
    let made: Value = serde_json::from_str(&said.stdout)?;
    let annotations = made["metadata"]["annotations"].as_object().context("no annotations")?;
    let annotations: Vec<(&str, &str)> =
        annotations.iter().filter_map(|(name, value)| Some((&**name, value.as_str()?))).collect();
    let labels = &[("istio", SELECTOR)];
    stage.proxy(&Proxy { labels, annotations: &annotations, ..Proxy::default() }).await
}

/// `laststream status`, without a flag, says what README.md shows.
async fn works(stage: &Stage) -> Outcome {
    let documented = documented_status()?;
    status_with(stage, |status| status.contains("count     exact, 3 counters")).await?;
    // Not before: a request that comes sooner than the module is not counted.
    stage.get("/").await?.expect(200)?;
    status_with(stage, |status| status.starts_with(&documented))
        .await
        .with_context(|| format!("README.md shows {documented}"))
}

/// Until `laststream status` says so.
async fn status_with(stage: &Stage, is_expected: impl Fn(&str) -> bool) -> Outcome {
    let look = async || {
        let said = stage.laststream(&["status"], "")?.expect(0)?;
        ensure!(is_expected(&said.stdout), "{}", said.stdout);
        Ok(())
    };
    wait_for(SOON, "`laststream status`", look).await
}

/// The first block of text after the commands.
fn documented_status() -> Outcome<String> {
    let readme = std::fs::read_to_string(kit::workspace().join("README.md"))?;
    let (_, section) = readme.split_once("\n## Install in Istio").context("no such section")?;
    let (_, block) = section.split_once("```text\n").context("no status in README.md")?;
    let (block, _) = block.split_once("```").context("the status has no end")?;
    Ok(block.to_owned())
}
