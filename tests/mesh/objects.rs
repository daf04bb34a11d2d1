//! Objects of the cases: from YAML files, in which `$name` stands for a value of the case, from
//! `laststream render all`, and Deployments with their pods.

use std::fmt::Display;

use serde::Deserialize;
use tokio::time::sleep;

use crate::cluster::Cluster;
use crate::seen::row;
use kit::prelude::*;
use kit::user::User;

/// A name without its `$`, and its value.
pub(crate) type Given<'g> = (&'g str, &'g dyn Display);

/// How long Envoy takes for everything that a control plane pushes together.
const SETTLED: Duration = Duration::from_secs(3);
/// The rule for changes that replace no listener.
const REPLACES_NOTHING: &str = "LS714";

/// The objects of a file.
pub(crate) fn objects(text: &str, given: &[Given<'_>]) -> Outcome<Vec<Value>> {
    let text = filled(text, given);
    serde_saphyr::from_multiple(&text).with_context(|| text.clone())
}

/// Longer names come first, so that none is taken for the beginning of another.
fn filled(text: &str, given: &[Given<'_>]) -> String {
    let mut given = given.to_vec();
    given.sort_by_key(|(name, _)| std::cmp::Reverse(name.len()));
    let fill = |text: String, (name, value): &Given<'_>| {
        text.replace(&format!("${name}"), &value.to_string())
    };
    given.iter().fold(text.to_owned(), fill)
}

/// Runs `laststream render all` for a policy, and returns the folder of the files.
pub(crate) fn render_all(user: &User, name: &str, policy: &str, more: &[&str]) -> Outcome<String> {
    let file = user.argument(&format!("{name}.yaml"), policy)?;
    let folder = user.path(name).display().to_string();
    let render = ["render", "all", "--policy", &file, "--output-dir", &folder];
    user.run(&[&render[..], more].concat(), "")?.expect(0)?;
    Ok(folder)
}

/// A Deployment whose pods have this template, and the label `app` with its name.
pub(crate) fn deployment(namespace: &str, name: &str, template: &Value) -> Value {
    json!({
        "apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": { "name": name, "namespace": namespace },
        "spec": { "selector": { "matchLabels": { "app": name } }, "template": template },
    })
}

/// The API server's numbers of ReplicaSets are made of these letters.
const HASH: &str = "7f8b6d4c5";

/// A pod that the controllers make of a Deployment with this template. Its name ends in `end`.
pub(crate) fn pod_of(namespace: &str, deployment: &str, template: &Value, end: &str) -> Value {
    let set = format!("{deployment}-{HASH}");
    let mut pod = template.clone();
    (pod["apiVersion"], pod["kind"]) = (json!("v1"), json!("Pod"));
    let metadata = &mut pod["metadata"];
    metadata["name"] = json!(format!("{set}-{end}"));
    metadata["namespace"] = json!(namespace);
    metadata["labels"]["pod-template-hash"] = json!(HASH);
    metadata["ownerReferences"] = json!([{
        "apiVersion": "apps/v1", "kind": "ReplicaSet", "name": set, "controller": true,
        "uid": "2c1f7a56-3f0e-4b7a-9d53-0d3c5f1c7a10",
    }]);
    pod
}

/// A change of an object.
pub(crate) struct Change {
    pub(crate) what: String,
    pub(crate) old: Value,
    pub(crate) new: Value,
    /// The rule of `lint --change` that must find it.
    rule: String,
    /// A word that only the changed configuration of Envoy has.
    mark: String,
    /// A request, and its status once Envoy has the change.
    pub(crate) sign: Option<(Request, u16)>,
}

/// A change as a file has it: the object, with `$change` where it changes.
#[derive(Deserialize)]
struct Written {
    what: String,
    rule: String,
    values: [Value; 2],
    mark: Option<String>,
    sign: Option<Sign>,
    object: Value,
}

#[derive(Deserialize)]
struct Sign {
    path: String,
    host: Option<String>,
    status: u16,
}

impl Written {
    fn with(&self, value: &Value) -> Outcome<Value> {
        let object = self.object.to_string();
        let object = match value {
            Value::String(word) => object.replace("$change", word),
            other => object.replace("\"$change\"", &other.to_string()),
        };
        serde_json::from_str(&object).context(object)
    }

    fn change(self) -> Outcome<Change> {
        let [old, new] = &self.values;
        let new_word = new.as_str().map_or_else(|| new.to_string(), str::to_owned);
        let (old, new) = (self.with(old)?, self.with(new)?);
        let sign = self.sign.map(|sign| {
            let request = Request::get(&sign.path);
            let request = sign.host.iter().fold(request, |request, host| request.host(host));
            (request, sign.status)
        });
        let mark = self.mark.unwrap_or(new_word);
        Ok(Change { what: self.what, old, new, rule: self.rule, mark, sign })
    }
}

/// The changes of a file.
pub(crate) fn changes(text: &str, given: &[Given<'_>]) -> Outcome<Vec<Change>> {
    let text = filled(text, given);
    let written: Vec<Written> = serde_saphyr::from_str(&text).with_context(|| text.clone())?;
    written.into_iter().map(Written::change).collect()
}

impl Change {
    /// Whether Envoy replaces listeners or filter chains.
    pub(crate) fn replaces(&self) -> bool {
        self.rule != REPLACES_NOTHING
    }

    /// Compares the findings of `laststream lint --change` with the listeners that the Envoy with
    /// this admin interface replaces. Returns what lint says.
    pub(crate) async fn compare(
        &self,
        case: &'static str,
        (cluster, user, admin): (&Cluster, &User, SocketAddr),
    ) -> Outcome<String> {
        cluster.apply_all(std::slice::from_ref(&self.old)).await?;
        sleep(SETTLED).await;
        let before = replaced(admin).await?;
        cluster.apply_all(std::slice::from_ref(&self.new)).await?;
        wait_for(PATIENCE, &self.what, async || {
            let dump = once(admin, &Request::get("/config_dump")).await?.expect(200)?.text();
            ensure!(dump.contains(&self.mark), "`{}` has not arrived", self.mark);
            Ok(())
        })
        .await?;
        if self.replaces() {
            wait_for(PATIENCE, &self.what, async || {
                ensure!(replaced(admin).await? > before, "no listener is replaced");
                Ok(())
            })
            .await?;
        }
        sleep(SETTLED).await;
        let listeners = replaced(admin).await? - before;
        ensure_eq!(listeners > 0, self.replaces(), "listeners of {}", self.what);
        let old = user.argument("old.yaml", self.old.to_string())?;
        let new = user.argument("new.yaml", self.new.to_string())?;
        let lint = ["lint", "--change", &old, &new];
        let found = tokio::task::block_in_place(|| user.run(&lint, ""))?.stdout;
        ensure!(found.contains(&self.rule), "{}: {found}", self.what);
        row(
            case,
            format!("{}: listeners that Envoy replaces, and `lint --change`", self.what),
            format!("{listeners}; {}", self.rule),
        );
        Ok(found)
    }
}

/// Listeners that Envoy has replaced, whole or in place.
async fn replaced(admin: SocketAddr) -> Outcome<u64> {
    let request = Request::get("/stats?filter=listener_manager");
    let text = once(admin, &request).await?.expect(200)?.text();
    let names = ["listener_modified", "listener_in_place_updated", "listener_added"];
    let counts = text.lines().filter_map(|line| {
        let (name, count) = line.strip_prefix("listener_manager.")?.split_once(": ")?;
        names.contains(&name).then(|| count.parse::<u64>().ok())?
    });
    Ok(counts.sum())
}
