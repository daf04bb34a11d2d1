//! `drain` and `wait` of pods: which gates get which requests, and what is said.

use kit::Outcome;
use kit::command::{CommandOutput, run_with_input};
use kit::fake_server::{Answer, Asked, FakeServer, Fault, Replies};
use kit::process::guarded;
use serde_json::{Value, json};

use crate::fleet::support::{Cluster, LIST, PROGRAM, deleted, list, pod, status};

const FORCE: &str = "POST /force?reason=incident%2042";
const RELEASE: [&str; 7] = ["drain", "web-1", "-n", "shop", "--force", "--reason", "incident 42"];

/// A cluster whose pods have one gate between them.
struct Shop {
    cluster: Cluster,
    gate: FakeServer,
    replies: Replies,
}

impl Shop {
    fn open(pods: Vec<Value>) -> Outcome<Self> {
        let replies = Replies::default();
        let gate = replies.serve()?;
        let to = gate.address;
        let cluster = Cluster::start(move |asked, _| {
            if asked.path() == LIST {
                return Ok(list(&selected(&pods, asked), ""));
            }
            if asked.path().ends_with("/portforward") {
                Err(Fault::Forward(to))
            } else {
                Ok(Answer::new(404))
            }
        })?;
        Ok(Self { cluster, gate, replies })
    }

    fn answers(&self, line: &str, code: u16, body: &Value) {
        self.replies.set(line, Ok(Answer::new(code).body(body.to_string())));
    }

    fn has_state(&self, state: &str, holding: u64) {
        let body = json!({
            "state": state, "reason": "r", "count": "exact", "holding": holding, "scopes": [],
        });
        self.answers("GET /status", 200, &body);
    }

    /// The requests to the gate that change something.
    fn changes(&self) -> Vec<String> {
        let lines = self.gate.asked().into_iter().map(|asked| asked.line());
        lines.filter(|line| !line.starts_with("GET ")).collect()
    }
}

/// The pods that the field selector names, or all.
fn selected(pods: &[Value], asked: &Asked) -> Vec<Value> {
    let selector = asked.parameter("fieldSelector").unwrap_or_default();
    let name = selector.strip_prefix("metadata.name%3D");
    let is_it = |pod: &&Value| name.is_none_or(|name| pod["metadata"]["name"] == name);
    pods.iter().filter(is_it).cloned().collect()
}

#[test]
fn a_pod_that_does_not_stop_is_released_by_its_name() -> Outcome {
    let shop = Shop::open(vec![deleted("web-1", "2200"), pod("web-2")])?;
    let forced = json!({ "state": "forced", "reason": "forced: incident 42", "holding": 2 });
    shop.answers(FORCE, 200, &forced);
    let said = shop.cluster.run(&RELEASE)?.expect(64)?;
    said.stderr_contains("no terminal to ask for confirmation: give `--yes`")?;
    assert_eq!(shop.cluster.server.asked().len(), 0, "nothing is asked before");
    let said = shop.cluster.run(&[&RELEASE[..], &["--yes"]].concat())?.expect(0)?;
    let line = "pod/web-1: forced: incident 42; 2 streams are in flight, and are cut when Envoy \
                stops\n";
    assert_eq!((said.stdout.as_str(), said.stderr.as_str()), (line, ""));
    assert_eq!(shop.changes(), [FORCE]);
    let forwarded = |name: &str| shop.cluster.asked(&format!("{LIST}/{name}/portforward"));
    assert_eq!((forwarded("web-1"), forwarded("web-2")), (1, 0), "the pods that were reached");
    Ok(())
}

/// A terminal of util-linux's `script`, on which the operator types this answer.
fn on_a_terminal(cluster: &Cluster, arguments: &str, answer: &str) -> Outcome<CommandOutput> {
    let mut script = guarded("script");
    script.args(["--quiet", "--return", "--command", &format!("'{PROGRAM}' {arguments}")]);
    script.arg("/dev/null").env("KUBECONFIG", cluster.kubeconfig()).env("TERM", "dumb");
    run_with_input(&mut script, &format!("{answer}\n"))
}

#[test]
fn a_change_is_confirmed_on_a_terminal_with_the_streams_that_it_cuts() -> Outcome {
    let shop = Shop::open(vec![deleted("web-1", "2200")])?;
    let scopes = json!([{ "scope": "inbound", "in_flight": 2, "begun": 9 }]);
    let draining = json!({
        "state": "draining", "reason": "r", "count": "exact", "holding": 2, "scopes": scopes,
    });
    shop.answers("GET /status", 200, &draining);
    shop.answers("POST /force?reason=x", 200, &json!({ "state": "forced", "reason": "x" }));
    let force = "drain web-1 -n shop --force --reason x";
    let said = on_a_terminal(&shop.cluster, force, "")?.expect(1)?;
    let said = said
        .stdout_contains("web-1  terminating  draining")?
        .stdout_contains("open the gates of 1 pod in namespace `shop` of http")?
        .stdout_contains("by force, and cut 2 streams? [y/N]")?;
    said.stdout_contains("nothing was changed")?;
    assert_eq!(shop.changes(), [""; 0]);
    let said = on_a_terminal(&shop.cluster, force, "y")?.expect(0)?;
    said.stdout_contains("pod/web-1: forced: x")?;
    assert_eq!(shop.changes(), ["POST /force?reason=x"]);
    Ok(())
}

/// As the controller of a StatefulSet replaces it.
#[test]
fn a_pod_that_was_replaced_since_it_was_listed_is_left_alone() -> Outcome {
    let cluster = Cluster::start(|asked, _| {
        let is_first = asked.parameter("limit").is_some();
        let mut now = pod("web-1");
        now["metadata"]["uid"] = json!(if is_first { "old" } else { "new" });
        Ok(if asked.path() == LIST { list(&[now], "") } else { Answer::new(404) })
    })?;
    let said = cluster.run(&[&RELEASE[..], &["--yes"]].concat())?.expect(1)?;
    said.stderr_contains("pod/web-1: the pod was deleted after it was listed")?;
    assert_eq!(cluster.server.asked().len(), 2, "no gate is asked");
    Ok(())
}

#[test]
fn each_pod_without_a_result_is_named() -> Outcome {
    let mut other = pod("cron");
    other["spec"]["containers"][0]["name"] = json!("app");
    let mut ended = pod("old");
    ended["status"]["containerStatuses"] = json!([]);
    let shop = Shop::open(vec![pod("web-1"), other, ended])?;
    shop.answers("POST /drain", 202, &json!({ "state": "draining", "reason": "begun" }));
    let pods = ["drain", "--yes", "-n", "shop", "pod/web-1", "cron", "old", "gone"];
    let said = shop.cluster.run(&pods)?.expect(1)?;
    assert_eq!(said.stdout, "pod/web-1: draining: begun\n");
    for words in [
        "pod/gone: it does not exist in namespace `shop`",
        "pod/cron: it has no proxy",
        "pod/old: its proxy does not run",
    ] {
        assert!(said.stderr.contains(&format!("error: {words}")), "{words}: {}", said.stderr);
    }
    shop.cluster
        .run(&["wait", "-n", "shop", "cron", "--timeout", "0s"])?
        .expect(1)?
        .stderr_contains("pod/cron: it has no proxy")?;
    let said = shop.cluster.run(&[&pods[..], &["-o", "json"]].concat())?.expect(1)?.json()?;
    let by_name = |name: &str| {
        let pods = said["pods"].as_array().unwrap();
        pods.iter().find(|pod| pod["pod"] == name).cloned().unwrap_or_default()
    };
    assert_eq!(by_name("web-1")["state"], "draining", "{said}");
    let missing = "it does not exist in namespace `shop`";
    assert_eq!(by_name("gone")["error"], missing, "{said}");
    assert_eq!(by_name("old")["error"], "its proxy does not run", "{said}");
    Ok(())
}

#[test]
fn a_gate_that_refuses_and_a_missing_right_are_named() -> Outcome {
    let shop = Shop::open(vec![pod("web-1")])?;
    let secret = json!({ "reason": "x-laststream-secret is missing or wrong" });
    shop.answers("DELETE /drain", 403, &secret);
    let cancel = ["drain", "web-1", "--cancel", "--yes"];
    let said = shop.cluster.run(&cancel)?.expect(1)?;
    let words = "pod/web-1: the gate wants its secret, which is not sent through the API server";
    said.stderr_contains(words)?.stderr_contains("kubectl port-forward")?;
    let cluster = Cluster::with_pods(&[pod("web-1")], |_| status(403, "Forbidden", "no"))?;
    let said = cluster.run(&cancel)?.expect(2)?;
    let said = said.stderr_contains("pod/web-1: no right to `get` `pods/portforward`")?;
    said.stderr_contains("the ClusterRole `laststream-reader`")?;
    Ok(())
}

#[test]
fn a_wait_for_pods_is_good_only_if_nothing_was_cut() -> Outcome {
    let shop = Shop::open(vec![pod("web-1"), pod("web-2")])?;
    let wait = ["wait", "-n", "shop", "-l", "app=web", "--timeout", "0s"];
    for (state, holding, code, words) in [
        ("drained", 0, 0, "pod/web-2: drained: r\n"),
        ("expired", 1, 1, "pod/web-2: expired: r; 1 stream is in flight, and is cut"),
    ] {
        shop.has_state(state, holding);
        shop.cluster.run(&wait)?.expect(code)?.stdout_contains(words)?;
    }
    shop.has_state("serving", 2);
    let said = shop.cluster.run(&wait)?.expect(1)?;
    let words = "pod/web-1: its drain is not over: serving: 2 streams would hold a drain";
    said.stderr_contains(words)?;
    assert_eq!(shop.changes(), [""; 0], "a wait begins no drain");
    Ok(())
}
