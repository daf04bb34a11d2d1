//! `lint --cluster`: the objects of the API server, its running pods, and their gates.

use std::collections::BTreeMap;
use std::path::Path;

use kit::Outcome;
use kit::command::CommandOutput;
use kit::fake_server::{Answer, FakeServer, Fault};
use laststream_fleet::{CONFIG_MAPS, KINDS};
use serde_json::{Value, json};

use crate::fleet::support::{Cluster, LIST, PAGE, list, pod, status};

const DEPLOYMENTS: &str = "/apis/apps/v1/namespaces/shop/deployments";
pub(crate) const FILTERS: &str = "/apis/networking.istio.io/v1alpha3/namespaces/shop/envoyfilters";
const LINT: [&str; 6] = ["lint", "--cluster", "-n", "shop", "-o", "json"];
const SUFFIXES: &str = "downstream_rq_active,downstream_rq_total";

/// The stop hook for this port, as `laststream render` writes it.
fn hook(port: u16) -> Value {
    json!({ "preStop": { "exec": { "command": [
        "pilot-agent", "wait", format!("--url=http://127.0.0.1:{port}/prestop?wait=10s"),
        "--timeoutSeconds=26", "--requestTimeoutMillis=11000", "--periodMillis=250",
    ] } } })
}

/// The template of a gateway's pods.
pub(crate) fn template(lifecycle: &Value) -> Value {
    json!({
        "metadata": {
            "labels": { "istio": "ingressgateway" },
            "annotations": {
                "inject.istio.io/templates": "gateway",
                "sidecar.istio.io/statsInclusionSuffixes": SUFFIXES,
                "proxy.istio.io/config": "drainDuration: 60s",
            },
        },
        "spec": {
            "terminationGracePeriodSeconds": 34,
            "containers": [{ "name": "istio-proxy", "image": "auto", "lifecycle": lifecycle }],
        },
    })
}

/// A pod of the Deployment `web` that was injected from this template.
pub(crate) fn injected(name: &str, template: &Value) -> Value {
    let mut own = pod(name);
    let metadata = &mut own["metadata"];
    metadata["labels"] = template["metadata"]["labels"].clone();
    metadata["labels"]["pod-template-hash"] = json!("5d");
    metadata["annotations"] = template["metadata"]["annotations"].clone();
    metadata["creationTimestamp"] = json!("2026-01-01T00:00:00Z");
    metadata["ownerReferences"] = json!([{
        "apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web-5d", "uid": "r",
        "controller": true,
    }]);
    own["spec"] = template["spec"].clone();
    own["spec"]["containers"][0]["image"] = json!("proxyv2:1.31.0");
    own
}

/// What the API server and the gates answer.
#[derive(Clone)]
pub(crate) struct World {
    pub(crate) objects: BTreeMap<String, Vec<Value>>,
    /// The answers of the gates by pod; other pods have statistics without the module.
    gates: BTreeMap<String, Value>,
    /// The statistics of all pods.
    page: &'static str,
    /// The ends of the paths that the user may not read.
    refused: Vec<&'static str>,
}

impl World {
    /// A Deployment with two pods, and the EnvoyFilter with their gate.
    pub(crate) fn new(template: &Value, pods: Vec<Value>) -> Outcome<Self> {
        let file =
            Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/program/fleet/lint/envoyfilter.json");
        let filter: Value = serde_json::from_slice(&std::fs::read(file)?)?;
        let deployment = json!({
            "metadata": { "name": "web", "namespace": "shop", "managedFields": [{}] },
            "spec": { "selector": {}, "template": template }, "status": {},
        });
        let names = pods.iter().filter_map(|pod| pod["metadata"]["name"].as_str());
        let gates = names.map(|name| (name.to_owned(), gate())).collect();
        let objects = [(DEPLOYMENTS, vec![deployment]), (FILTERS, vec![filter]), (LIST, pods)];
        let objects = objects.map(|(path, objects)| (path.to_owned(), objects)).into();
        Ok(Self { objects, gates, page: "a 1\n", refused: Vec::new() })
    }

    fn good() -> Outcome<Self> {
        let template = template(&hook(16091));
        Self::new(&template, vec![injected("web-a", &template), injected("web-b", &template)])
    }

    fn run(self, arguments: &[&str]) -> Outcome<CommandOutput> {
        self.start()?.run(arguments)
    }

    pub(crate) fn start(self) -> Outcome<Cluster> {
        let (mut forwards, mut servers) = (BTreeMap::new(), Vec::new());
        for (pod, answer) in &self.gates {
            let answer = answer.to_string();
            let gate = FakeServer::start(move |_, _| Ok(Answer::new(200).body(answer.clone())))?;
            forwards.insert(format!("{LIST}/{pod}/portforward"), gate.address);
            servers.push(gate);
        }
        let groups = ["apps", "networking.istio.io", "karpenter.sh", "elbv2.k8s.aws"];
        let groups = groups.map(|name| json!({ "name": name, "versions": [] }));
        let groups = json!({ "kind": "APIGroupList", "apiVersion": "v1", "groups": groups });
        Cluster::start(move |asked, _| {
            let _alive = &servers;
            let path = asked.path();
            if self.refused.iter().any(|end| path.ends_with(end)) {
                return Ok(status(403, "Forbidden", "no"));
            }
            if let Some(to) = forwards.get(path) {
                return Err(Fault::Forward(*to));
            }
            Ok(match self.objects.get(path) {
                _ if path == "/apis" => Answer::new(200).body(groups.to_string()),
                Some(objects) => list(objects, ""),
                None if path.ends_with("/stats/prometheus") => Answer::new(200).body(self.page),
                None => Answer::new(404).body("404 page not found\n"), // as for unknown kinds
            })
        })
    }
}

/// The status of a gate that serves.
fn gate() -> Value {
    json!({
        "state": "serving", "reason": "r", "count": "exact", "holding": 0, "scopes": [],
        "version": "0.1.0",
    })
}

/// The codes and messages of all findings.
fn found(said: &CommandOutput) -> Outcome<Vec<(String, String)>> {
    let said = said.json()?;
    let findings = said["findings"].as_array().cloned().unwrap_or_default();
    let text = |finding: &Value, key: &str| finding[key].as_str().unwrap_or_default().to_owned();
    Ok(findings.iter().map(|one| (text(one, "code"), text(one, "message"))).collect())
}

#[test]
fn a_cluster_without_mistakes_has_no_finding() -> Outcome {
    let cluster = World::good()?.start()?;
    let said = cluster.run(&["lint", "--cluster", "-n", "shop", "--fail-on", "info"])?.expect(0)?;
    assert_eq!((said.stdout.as_str(), said.stderr.trim()), ("", "2 objects: nothing found"));
    let asked = cluster.server.asked();
    let writes = asked.iter().filter(|asked| asked.method != "GET");
    assert_eq!(writes.count(), 0, "objects are only read");
    let lists = asked.iter().filter(|asked| asked.path() == LIST);
    assert_eq!(lists.count(), 1, "pods are listed once");
    let installed = asked.iter().any(|asked| asked.path().contains("gateway.envoyproxy.io"));
    assert!(!installed, "a group that the cluster does not have is not asked for");
    Ok(())
}

/// One mistake in a cluster that has no other.
fn mistake(code: &str, words: &str, change: impl FnOnce(&mut World)) -> Outcome {
    let mut world = World::good()?;
    change(&mut world);
    let said = world.run(&LINT)?.expect(1)?;
    let found = found(&said)?;
    let is_it = |(other, text): &&(String, String)| other == code && text.contains(words);
    assert!(found.iter().any(|one| is_it(&one)), "{code} {words}: {found:?}");
    let object = said.json()?["findings"][0]["object"].clone();
    assert!(object["kind"].is_string(), "{object}");
    Ok(())
}

fn pods(world: &mut World) -> &mut Vec<Value> {
    world.objects.entry(LIST.to_owned()).or_default()
}

/// The rules about hooks, and about pods without a gate, are case F6 of the mesh.
#[test]
fn pods_that_were_not_replaced_are_found() -> Outcome {
    for (words, field, value) in [
        ("no stop hook", "/spec/containers/0/lifecycle", Value::Null),
        ("another stop hook", "/spec/containers/0/lifecycle", hook(16092)),
        ("8 s of grace instead of 34 s", "/spec/terminationGracePeriodSeconds", json!(8)),
        (
            "another annotation `proxy.istio.io/config`",
            "/metadata/annotations/proxy.istio.io~1config",
            json!("drainDuration: 5s"),
        ),
    ] {
        let words = format!("1 of 2 pods (web-a) have {words}");
        mistake("LS801", &words, |world| {
            let pods = pods(world);
            pods[1]["metadata"]["creationTimestamp"] = json!("2026-02-01T00:00:00Z");
            *pods[0].pointer_mut(field).unwrap() = value;
        })?;
    }
    Ok(())
}

#[test]
fn nodes_that_leave_too_little_time_are_found() -> Outcome {
    let words = "`web` has 34 s of grace, and its nodes leave 20 s";
    mistake("LS810", words, |world| {
        let spec = json!({ "template": { "spec": { "terminationGracePeriod": "20s" } } });
        let pool = json!({ "metadata": { "name": "spot" }, "spec": spec });
        world.objects.insert("/apis/karpenter.sh/v1/nodepools".to_owned(), vec![pool]);
    })?;
    mistake("LS810", "its nodes leave 30 s", |world| {
        let container = json!({
            "name": "ca", "image": "registry.test/cluster-autoscaler:v1.36.0",
            "args": ["--max-graceful-termination-sec=30"],
        });
        let spec = json!({ "selector": {}, "template": { "spec": { "containers": [container] } } });
        let autoscaler = json!({ "metadata": { "name": "ca", "namespace": "shop" }, "spec": spec });
        world.objects.entry(DEPLOYMENTS.to_owned()).or_default().push(autoscaler);
    })
}

#[test]
fn the_answers_of_gates_are_compared() -> Outcome {
    let why = "2 of 2 pods (web-a, web-b): `partial`: requests may be in flight";
    mistake("LS807", why, |world| {
        world.gates.values_mut().for_each(|gate| gate["count"] = json!("partial"));
    })?;
    mistake("LS808", "of its pods `0.0.9` in 1, `0.1.0` in 1", |world| {
        world.gates.entry("web-a".to_owned()).or_default()["version"] = json!("0.0.9");
    })
}

/// The rest is judged: the hook's mistake is found beside the missing right.
#[test]
fn a_missing_right_is_named_and_the_rest_is_judged() -> Outcome {
    for (path, right) in [
        (FILTERS, "no right to `list` `envoyfilters` in namespace `shop`"),
        (LIST, "no right to `list` `pods` in namespace `shop`"),
        ("/services", "no right to `list` `services` in namespace `shop`"),
        ("/targetgroupbindings", "no right to `list` `targetgroupbindings` in namespace `shop`"),
    ] {
        let mut world = World::good()?;
        world.refused.push(path);
        let said = world.run(&LINT)?.expect(1)?;
        let found = found(&said)?;
        let named = found.iter().filter(|(code, text)| code == "LS809" && text.contains(right));
        assert_eq!(named.count(), 1, "{found:?}");
        let role = if path == LIST { "laststream-reader" } else { "laststream-linter" };
        assert!(found.iter().any(|(_, text)| text.contains(role)), "{found:?}");
    }
    Ok(())
}

#[test]
fn a_missing_right_for_all_pods_is_one_finding() -> Outcome {
    let mut world = World::good()?;
    world.refused.push("/portforward");
    world.page = PAGE;
    let found = found(&world.run(&LINT)?.expect(1)?)?;
    assert!(matches!(found.as_slice(), [(code, _)] if code == "LS809"), "{found:?}");
    Ok(())
}

#[test]
fn an_unreachable_api_server_is_no_verdict() -> Outcome {
    let cluster = Cluster::start(|_, _| Ok(status(401, "Unauthorized", "Unauthorized")))?;
    cluster.run(&LINT)?.expect(2)?.stderr_contains("does not accept the credentials (401)")?;
    Ok(())
}

#[test]
fn findings_name_objects_instead_of_lines() -> Outcome {
    let mut world = World::good()?;
    pods(&mut world)[0]["spec"]["terminationGracePeriodSeconds"] = json!(8);
    let cluster = world.start()?;
    let text = cluster.run(&["lint", "--cluster", "-n", "shop"])?.expect(1)?;
    text.stdout_contains("--> Deployment shop/web (spec.template")?;
    let sarif = cluster.run(&["lint", "--cluster", "-n", "shop", "-o", "sarif"])?.json()?;
    let place = &sarif["runs"][0]["results"][0]["locations"][0]["physicalLocation"];
    assert_eq!(place["artifactLocation"]["uri"], "cluster/shop/Deployment/web");
    Ok(())
}

/// What a change would cut: streams that are older than the drain time of their pod, among those
/// that a gate lists. Only the pods that the change reaches are asked.
#[test]
fn a_change_is_weighed_by_the_streams_of_the_cluster() -> Outcome {
    let template = template(&hook(16091));
    let mut pods = ["web-a", "web-b", "api-a"].map(|name| injected(name, &template));
    pods[2]["metadata"]["labels"]["istio"] = json!("other");
    let mut world = World::new(&template, pods.to_vec())?;
    world.page = "laststream_streams_in_flight_gateway{} 2\n";
    let ages = [125_000, 60_000, 59_999].map(|age| json!({ "scope": "gateway", "age_ms": age }));
    let streams = json!({
        "state": "serving", "holding": 3, "complete": true, "streams": ages, "reason": "r",
        "count": "exact", "scopes": [{ "scope": "gateway", "in_flight": 3, "begun": 9 }],
        "version": "0.1.0",
    });
    world.gates = BTreeMap::from([("web-a".to_owned(), streams)]);
    let cluster = world.start()?;
    let home = tempfile::tempdir()?;
    let file = |name: &str, path: &str| -> Outcome<String> {
        let text = format!(
            "apiVersion: security.istio.io/v1\nkind: AuthorizationPolicy\nmetadata: {{name: a, \
             namespace: shop}}\nspec: {{selector: {{matchLabels: {{istio: ingressgateway}}}}, \
             rules: [{{to: [{{operation: {{paths: [{path}]}}}}]}}]}}\n"
        );
        std::fs::write(home.path().join(name), text)?;
        Ok(home.path().join(name).display().to_string())
    };
    let (old, new) = (file("old.yaml", "/a")?, file("new.yaml", "/b")?);
    let change = ["lint", "--change", &old, &new, "--cluster", "-n", "shop"];
    let row = "| Deployment shop/web | 2 | 5 | 2 | 2 | 60 s | 1 pod: it has no gate |";
    let said = cluster.run(&change)?.expect(1)?.stdout_contains(row)?;
    let said = said.stderr_contains("now: at least 5 streams in 2 pods")?;
    said.stderr_contains("at least 2 of them older than the drain time")?;
    let json = cluster.run(&[&change[..], &["-o", "json"]].concat())?.expect(1)?.json()?;
    assert_eq!(json["cut_now"][0]["older"], 2, "{json}");
    let is_other = |path: &str| path.contains("api-a");
    assert!(!cluster.server.asked().iter().any(|asked| is_other(asked.path())));
    let same = ["lint", "--change", &old, &old, "--cluster", "-n", "shop"];
    cluster.run(&same)?.expect(0)?.stderr_contains("now: 0 streams in 0 pods")?;
    Ok(())
}

/// Only the pods with the labels are compared, and a page of statistics is not a gate's answer.
#[test]
fn a_selector_goes_to_the_api_server() -> Outcome {
    let cluster = World::good()?.start()?;
    cluster.run(&[&LINT[..], &["-l", "app=web"]].concat())?.expect(0)?;
    let asked = cluster.server.asked();
    let pods = asked.iter().find(|asked| asked.path() == LIST);
    let selector = pods.and_then(|asked| asked.parameter("labelSelector"));
    assert_eq!(selector, Some("app%3Dweb"));
    Ok(())
}

/// Wrong names must not look like a cluster without a mistake.
#[test]
fn a_namespace_without_anything_is_no_verdict() -> Outcome {
    let objects = BTreeMap::from([(LIST.to_owned(), Vec::new())]);
    let empty = World { objects, ..World::good()? };
    let why = "nothing to check was found: are the namespace and the labels right?";
    empty.run(&LINT)?.expect(2)?.stderr_contains(why)?;
    let mut other = World::good()?;
    pods(&mut other).clear();
    other.clone().run(&LINT)?.expect(0)?;
    other.run(&[&LINT[..], &["-l", "app=wbe"]].concat())?.expect(2)?.stderr_contains(why)?;
    Ok(())
}

/// A pod that was not injected has no proxy, whatever an EnvoyFilter selects.
#[test]
fn a_pod_without_a_proxy_has_no_gate() -> Outcome {
    let mut world = World::good()?;
    for pod in pods(&mut world) {
        pod["spec"]["containers"][0]["name"] = json!("app");
        pod["spec"]["terminationGracePeriodSeconds"] = json!(1);
    }
    for deployment in world.objects.get_mut(DEPLOYMENTS).into_iter().flatten() {
        let spec = &mut deployment["spec"]["template"]["spec"];
        spec["containers"][0]["name"] = json!("app");
        spec["terminationGracePeriodSeconds"] = json!(1);
    }
    let said = world.run(&LINT)?;
    let found = found(&said)?;
    assert!(
        found.iter().all(|(code, _)| !["LS551", "LS806"].contains(&code.as_str())),
        "{found:?}"
    );
    Ok(())
}

/// The ClusterRole has each kind that is read, and nothing else.
#[test]
fn the_role_has_exactly_the_kinds_that_are_read() -> Outcome {
    let role =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../envoyfilter-manifests/rights/linter.yaml");
    let role = std::fs::read_to_string(role)?;
    let mut granted = Vec::new();
    let mut group = String::new();
    for line in role.lines().map(str::trim) {
        if let Some(name) = line.strip_prefix("- apiGroups: [") {
            group = name.trim_matches([']', '"']).to_owned();
        } else if let Some(names) = line.strip_prefix("resources: [") {
            let names = names.trim_end_matches(']').split(", ");
            granted.extend(names.map(|name| (group.clone(), name.to_owned())));
        } else if let Some(verbs) = line.strip_prefix("verbs: ") {
            let is_read_alone = granted.last().is_some_and(|(_, name)| name == "configmaps");
            assert_eq!(verbs, if is_read_alone { "[get, list]" } else { "[list]" }, "{group}");
        }
    }
    let read = KINDS.iter().chain([&CONFIG_MAPS]);
    let mut read: Vec<(String, String)> =
        read.map(|kind| (kind.group.to_owned(), kind.resource.to_owned())).collect();
    read.sort();
    granted.sort();
    assert_eq!(granted, read);
    Ok(())
}
