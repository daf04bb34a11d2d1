//! Lists and statistics.

use kit::Outcome;
use kit::fake_server::{Answer, Fault, Replies};
use kit::wire::{free_port, local};
use serde_json::{Value, json};

use crate::fleet::support::{
    Cluster, LIST, PAGE, STATUS, is_look_up, list, pod, statistics, status,
};

const ACCESS_REVIEWS: &str = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews";

const NODE: [&str; 5] = ["status", "--node", "n", "-n", "shop"];

fn access_review(allowed: bool) -> Answer {
    let review = json!({
        "kind": "SelfSubjectAccessReview", "apiVersion": "authorization.k8s.io/v1",
        "metadata": {}, "spec": {}, "status": { "allowed": allowed },
    });
    Answer::new(201).with("content-type", "application/json").body(review.to_string())
}

#[test]
fn all_pages_are_read() -> Outcome {
    let cluster = Cluster::start(|asked, _| {
        Ok(match (asked.path(), asked.parameter("continue")) {
            (LIST, None) => list(&[pod("a"), pod("b")], "next"),
            (LIST, Some("next")) => list(&[pod("c")], ""),
            _ => Answer::new(200).body(PAGE),
        })
    })?;
    let pods = cluster.pods(0)?;
    let names: Vec<_> = pods.iter().filter_map(|pod| pod["pod"].as_str()).collect();
    assert_eq!(names, ["a", "b", "c"]);
    assert!(pods.iter().all(|pod| pod["in_flight"]["inbound"] == 2), "{pods:?}");
    Ok(())
}

#[test]
fn a_list_whose_beginning_is_forgotten_begins_again_once() -> Outcome {
    let cluster = Cluster::start(|asked, before| {
        Ok(match (asked.path(), asked.parameter("continue"), before) {
            (LIST, None, _) => list(&[pod("a")], "next"),
            (LIST, Some(_), 0) => status(410, "Expired", "the continue token is too old"),
            (LIST, Some(_), _) => list(&[pod("b")], ""),
            _ => Answer::new(200).body(PAGE),
        })
    })?;
    assert_eq!(cluster.pods(0)?.len(), 2);
    Ok(())
}

#[test]
fn a_pod_that_fails_hides_no_other() -> Outcome {
    let cluster = Cluster::start(|asked, _| {
        Ok(if is_look_up(asked, "d") {
            list(&[], "")
        } else if asked.path() == LIST {
            list(&["a", "b", "c", "d", "e"].map(pod), "")
        } else if asked.path() == statistics("b") {
            let why = "error trying to reach service: dial tcp 10.0.0.1:15020: connect: refused";
            status(503, "ServiceUnavailable", why)
        } else if asked.path() == statistics("c") {
            Answer::new(404).body("no such page")
        } else if asked.path() == statistics("d") {
            status(404, "NotFound", "pods \"d\" not found")
        } else if asked.path() == statistics("e") {
            Answer::new(200).body("<html><body>hello</body></html>")
        } else {
            Answer::new(200).body(PAGE)
        })
    })?;
    let said = cluster.run(&STATUS)?.expect(1)?;
    let rows: Vec<_> = said.stdout.lines().skip(1).collect();
    assert_eq!(rows.len(), 4, "a pod that has gone is not shown: {}", said.stdout);
    assert!(rows[0].ends_with("dial tcp 10.0.0.1:15020: connect: refused"), "{}", said.stdout);
    assert!(rows[1].contains("is this the port with Envoy's statistics?"), "{}", said.stdout);
    assert!(rows[2].contains("HTML instead of statistics"), "{}", said.stdout);
    assert!(rows[3].starts_with("a    ready  serving"), "{}", said.stdout);
    said.stderr_contains("3 pods could not be asked")?;
    assert_eq!(cluster.asked(&statistics("b")), 1, "a pod is asked once");
    Ok(())
}

#[test]
fn trouble_is_first_and_can_be_shown_alone() -> Outcome {
    let draining = PAGE.replace("state{} 0", "state{} 1");
    let cluster = Cluster::with_pods(&["a", "b", "c"].map(pod), move |asked| match asked.path() {
        path if path == statistics("a") => Answer::new(200).body(PAGE),
        path if path == statistics("b") => Answer::new(200).body(draining.clone()),
        _ => status(503, "ServiceUnavailable", "no port-forward"),
    })?;
    for (option, shown) in [(&[][..], &["b", "c", "a"][..]), (&["--trouble"], &["b", "c"])] {
        let said = cluster.run(&[&STATUS[..], option].concat())?.expect(1)?;
        let rows = said.stdout.lines().skip(1).map(|row| row.split(' ').next().unwrap());
        assert_eq!(rows.collect::<Vec<_>>(), shown, "{}", said.stdout);
        assert_eq!(said.stderr.contains("; 2 with trouble"), !option.is_empty(), "{}", said.stderr);
    }
    Ok(())
}

/// The answer of a pod can look like one of the API server.
#[test]
fn an_answer_of_a_pod_is_not_taken_for_the_api_server_s() -> Outcome {
    for (code, reason) in [(404, "NotFound"), (403, "Forbidden"), (401, "Unauthorized")] {
        let cluster = Cluster::with_pods(&[pod("a")], move |asked| match asked.path() {
            ACCESS_REVIEWS => access_review(true),
            _ => status(code, reason, "log in at evil.test"),
        })?;
        let said = cluster.run(&STATUS)?.expect(1)?;
        let said = said.stdout_contains("a    ready  unreachable")?;
        said.hides("evil.test")?.stderr_contains("1 pod could not be asked")?;
    }
    Ok(())
}

#[test]
fn a_refusal_is_the_api_server_s_if_an_access_review_confirms_it() -> Outcome {
    for (answers, code) in [
        (Some(access_review(false)), 2),
        (Some(access_review(true)), 1),
        (Some(status(401, "Unauthorized", "expired")), 2),
        (None, 1), // the other pod has answered
    ] {
        let pods = [pod("a"), pod("b")];
        let cluster = Cluster::with_pods(&pods, move |asked| match asked.path() {
            ACCESS_REVIEWS => answers.clone().unwrap_or_else(|| Answer::new(404)),
            path if path == statistics("a") => Answer::new(200).body(PAGE),
            _ => status(403, "Forbidden", "no"),
        })?;
        cluster.run(&STATUS)?.expect(code)?;
        assert_eq!(cluster.asked(ACCESS_REVIEWS), 1);
    }
    Ok(())
}

#[test]
fn an_answer_of_a_pod_cannot_forge_lines_about_others() -> Outcome {
    let forged = "x\ndb-0 ready serving".to_owned() + &"y".repeat(10_000);
    let cluster = Cluster::with_pods(&[pod("a")], move |_| Answer::new(500).body(forged.clone()))?;
    let said = cluster.run(&NODE)?.expect(1)?.stdout_contains("unreachable")?;
    assert!(!said.stdout.lines().any(|line| line.starts_with("db-0")), "{}", said.stdout);
    let longest = said.stdout.lines().map(|line| line.chars().count()).max();
    assert!(longest < Some(300), "{longest:?}");
    Ok(())
}

/// A pod with statistics, whose gate cannot be reached.
fn without_port_forward() -> Outcome<Cluster> {
    Cluster::with_pods(&[pod("a")], |asked| match asked.path() {
        path if path == statistics("a") => Answer::new(200).body(PAGE),
        _ => status(500, "InternalError", "no port-forward"),
    })
}

#[test]
fn a_gate_that_cannot_be_asked_is_reported() -> Outcome {
    let cluster = without_port_forward()?;
    cluster.run(&STATUS)?.expect(0)?; // the statistics are enough
    let said = cluster.run(&["status", "-n", "shop", "--every-gate"])?.expect(1)?;
    let said = said.stdout_contains("its gate cannot be asked: no port-forward")?;
    said.stderr_contains("1 gate could not be asked")?;
    Ok(())
}

#[test]
fn a_port_without_a_program_is_named() -> Outcome {
    let free = local(free_port()?);
    let all = list(&[pod("a")], "");
    let cluster = Cluster::start(move |asked, _| match asked.path() {
        LIST => Ok(all.clone()),
        path if path == statistics("a") => Ok(Answer::new(200).body(PAGE)),
        _ => Err(Fault::Forward(free)),
    })?;
    let said = cluster.run(&["status", "-n", "shop", "--every-gate"])?.expect(1)?;
    said.stdout_contains("its gate cannot be asked: no program listens on port 16091 of the pod")?;
    let said = cluster.run(&["drain", "a", "-n", "shop", "--yes"])?.expect(1)?;
    said.stderr_contains("no program listens on port 16091 of the pod")?;
    Ok(())
}

const AGENT_ALONE: &str = "# TYPE istio_agent_scrapes_total counter\nistio_agent_scrapes_total 1\n";

/// What Istio's agent says that is set up to serve Envoy's statistics to its own pod only, or not
/// at all, and the word for it.
fn agents() -> [(Answer, &'static str); 2] {
    let local = Answer::new(403).body("Only requests from localhost are allowed\n");
    [
        (local, "METRICS_LOCALHOST_ACCESS_ONLY"),
        (Answer::new(200).body(AGENT_ALONE), "PILOT_AGENT_MERGE_ENVOY_STATS"),
    ]
}

#[test]
fn statistics_that_the_agent_does_not_serve_come_from_envoy() -> Outcome {
    for (answer, word) in agents() {
        let replies = Replies::default();
        let envoy = replies.serve()?;
        let page = "GET /stats/prometheus?filter=laststream_%7Cserver.live";
        replies.set(page, Ok(Answer::new(200).body(PAGE)));
        let (all, to) = (list(&[pod("a")], ""), envoy.address);
        let cluster = Cluster::start(move |asked, _| match asked.path() {
            LIST => Ok(all.clone()),
            path if path == statistics("a") => Ok(answer.clone()),
            _ if asked.parameter("ports") == Some("15000") => Err(Fault::Forward(to)),
            _ => Ok(Answer::new(404)),
        })?;
        let pods = cluster.pods(0)?;
        let why = pods[0]["why"].as_str().unwrap_or_default();
        assert!(why.contains(word) && why.ends_with("asked by port-forward"), "{pods:?}");
        assert_eq!((&pods[0]["class"], &pods[0]["count"]), (&json!("installed"), &json!("exact")));
    }
    Ok(())
}

#[test]
fn a_proxy_whose_statistics_nobody_serves_is_not_one_without_laststream() -> Outcome {
    for (answer, word) in agents() {
        let cluster = Cluster::with_pods(&[pod("a")], move |asked| match asked.path() {
            path if path == statistics("a") => answer.clone(),
            _ => status(500, "InternalError", "no port-forward"),
        })?;
        let said = cluster.run(&STATUS)?.expect(1)?;
        let said = said.stdout_contains("unreachable")?.stdout_contains(word)?;
        said.stdout_contains("port 15000: ")?;
    }
    Ok(())
}

#[test]
fn streams_that_are_counted_and_not_listed_are_reported() -> Outcome {
    let cluster = without_port_forward()?;
    let said = cluster.run(&["streams", "-n", "shop"])?.expect(1)?;
    let why = "shop/a does not list its streams: 2 in flight; its gate cannot be asked: no port";
    said.stderr_contains(why)?.hides("no stream is in flight")?;
    let said = cluster.run(&["streams", "-n", "shop", "-o", "json"])?.expect(1)?.json()?;
    assert_eq!((&said["complete"], &said["pods"][0]["in_flight"]), (&json!(false), &json!(2)));
    Ok(())
}

#[test]
fn pods_without_a_proxy_are_not_a_fleet_without_streams() -> Outcome {
    let mut other = pod("a");
    other["spec"]["containers"][0]["name"] = json!("app");
    let cluster = Cluster::with_pods(&[other], |_| Answer::new(404))?;
    let said = cluster.run(&["streams", "-n", "shop", "-l", "app=web"])?.expect(0)?;
    let words = "no pod with a proxy was found, and 1 pod without one";
    said.hides("no stream is in flight")?.stderr_contains(words)?;
    Ok(())
}

#[test]
fn a_selector_of_no_pod_is_an_error_for_each_command() -> Outcome {
    let cluster = Cluster::start(|_, _| Ok(list(&[], "")))?;
    for command in [
        &["status", "-o", "json"][..],
        &["streams", "-o", "json"],
        &["deletion-cost", "--once"],
        &["deletion-cost", "--clear"],
        &["drain", "--yes"],
        &["wait"],
    ] {
        let said = cluster.run(&[command, &["-l", "app=wbe"]].concat())?.expect(2)?;
        let words = "error: no pod that runs has the labels `app=wbe`: compare them with";
        let said = said.stderr_contains(words)?;
        assert_eq!(said.stdout, "", "{command:?}");
    }
    Ok(())
}

#[test]
fn a_watch_goes_on_without_a_pod() -> Outcome {
    let cluster = Cluster::start(|asked, before| {
        Ok(match (asked.path(), before) {
            (LIST, 0) => list(&[], ""),
            (LIST, _) => status(401, "Unauthorized", "expired"),
            _ => Answer::new(200).body(PAGE),
        })
    })?;
    let said = cluster.run(&[&STATUS[..], &["--watch"]].concat())?.expect(2)?;
    said.stderr_contains("warning: namespace `shop` has no pod that runs")?;
    assert_eq!(cluster.asked(LIST), 2);
    Ok(())
}

/// A node is asked about what holds its pods, which only their gates know.
#[test]
fn a_node_is_asked_about_the_deletion_of_its_pods() -> Outcome {
    let cluster = without_port_forward()?;
    let said = cluster.run(&NODE)?.expect(1)?;
    let head = said.stdout.lines().next().unwrap_or_default();
    assert!(head.contains("AT MOST") && head.contains("GRACE"), "{}", said.stdout);
    said.stderr_contains("1 gate could not be asked")?;
    let said = cluster.run(&[&NODE[..], &["-o", "json"]].concat())?.expect(1)?.json()?;
    let pod = &said["pods"][0];
    assert_eq!((&pod["at_most_seconds"], &pod["grace_seconds"]), (&json!(5), &json!(30)), "{pod}");
    let why = pod["too_short"].as_str().unwrap_or_default();
    assert!(why.contains("no stop hook"), "{pod}");
    Ok(())
}

const COSTS: [&str; 4] = ["deletion-cost", "-n", "shop", "--once"];

fn of_replica_set(name: &str, annotations: Value) -> Value {
    let mut pod = pod(name);
    pod["metadata"]["ownerReferences"] =
        json!([{ "apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": "r" }]);
    pod["metadata"]["annotations"] = annotations;
    pod
}

#[test]
fn costs_of_other_programs_stay_and_a_refusal_stops_no_other_write() -> Outcome {
    let foreign = json!({ "controller.kubernetes.io/pod-deletion-cost": "-100" });
    let pods = [
        of_replica_set("a", json!({})),
        of_replica_set("b", json!({})),
        of_replica_set("c", foreign),
    ];
    let cluster = Cluster::with_pods(&pods, |asked| match asked.path() {
        path if path.ends_with("/stats/prometheus") => Answer::new(200).body(PAGE),
        path if asked.method == "PATCH" && path == format!("{LIST}/a") => {
            status(403, "Forbidden", "no")
        }
        _ if asked.method == "PATCH" => Answer::new(200).body(pod("x").to_string()),
        _ => Answer::new(404),
    })?;
    let said = cluster.run(&COSTS)?.expect(2)?;
    assert_eq!(said.stdout, "shop/b: none -> 2, 2 streams in flight\n");
    let said = said.stderr_contains("no right to `patch` `pods`")?;
    let said = said.stderr_contains("the ClusterRole `laststream-actor`")?;
    said.stderr_contains("1 pod with a cost that another program")?;
    assert_eq!(cluster.asked(&format!("{LIST}/c")), 0);
    let said = cluster.run(&[&COSTS[..], &["--overwrite", "-o", "json"]].concat())?.expect(2)?;
    let costs = said.json_lines()?;
    assert_eq!(costs.len(), 2, "{costs:?}");
    let last = json!({
        "namespace": "shop", "pod": "c", "streams": 2, "from": -100, "to": 2, "written": true,
    });
    assert_eq!(costs[1], last);
    assert_eq!(cluster.asked(&format!("{LIST}/c")), 1);
    Ok(())
}

/// Such a pod's gate may know Envoy's own count, so it is asked.
#[test]
fn a_count_that_lacks_streams_is_not_written() -> Outcome {
    let pods = ["a", "b"].map(|name| of_replica_set(name, json!({})));
    let partial = PAGE.replace("count_exact", "count_partial");
    let cluster = Cluster::with_pods(&pods, move |asked| match asked.path() {
        path if path == statistics("a") => Answer::new(200).body(partial.clone()),
        path if path == statistics("b") => Answer::new(200).body(PAGE),
        _ if asked.method == "PATCH" => Answer::new(200).body(pod("x").to_string()),
        _ => status(500, "InternalError", "no port-forward"),
    })?;
    let said = cluster.run(&COSTS)?.expect(1)?;
    assert_eq!(said.stdout, "shop/b: none -> 2, 2 streams in flight\n");
    said.stderr_contains("the costs of 1 pod stay, because no count has all streams there")?;
    let asked = ["a", "b"].map(|pod| cluster.asked(&format!("{LIST}/{pod}/portforward")));
    assert_eq!(asked, [1, 0]);
    Ok(())
}
