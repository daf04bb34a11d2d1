//! Rollouts: their ends, and exit codes as kubectl's.

use kit::Outcome;
use kit::fake_server::{Answer, Fault};
use serde_json::{Value, json};

use crate::fleet::support::{Cluster, HANG, LIST, deleted, list, pod, status};

const DEPLOYMENT: &str = "/apis/apps/v1/namespaces/shop/deployments/web";

fn deployment(numbers: [i32; 4], reason: &str) -> Answer {
    let [wanted, updated, total, available] = numbers;
    let object = json!({
        "metadata": { "name": "web", "namespace": "shop", "generation": 2 },
        "spec": {
            "replicas": wanted, "selector": { "matchLabels": { "app": "web" } },
            "template": { "metadata": {}, "spec": { "containers": [] } },
        },
        "status": {
            "observedGeneration": 2, "updatedReplicas": updated, "replicas": total,
            "availableReplicas": available,
            "conditions": [{ "type": "Progressing", "status": "False", "reason": reason }],
        },
    });
    Answer::new(200).body(object.to_string())
}

fn with_hook() -> Value {
    let mut pod = pod("web-1");
    let url = "--url=http://127.0.0.1:16091/prestop?wait";
    pod["spec"]["terminationGracePeriodSeconds"] = json!(30);
    pod["spec"]["containers"][0]["lifecycle"]["preStop"]["exec"]["command"] =
        json!(["pilot-agent", "wait", url, "--timeoutSeconds=24"]);
    pod
}

fn follow(numbers: [i32; 4], reason: &'static str) -> Outcome<Cluster> {
    Cluster::with_pods(&[with_hook()], move |asked| match asked.path() {
        DEPLOYMENT => deployment(numbers, reason),
        _ => Answer::new(404),
    })
}

#[test]
fn a_complete_rollout_ends_at_once() -> Outcome {
    let cluster = follow([1, 1, 1, 1], "NewReplicaSetAvailable")?;
    let said = cluster.run(&["rollout", "deployment/web"])?.expect(0)?;
    let lines: Vec<_> = said.stdout.lines().collect();
    assert_eq!(
        lines,
        [
            "pod/web-1: streams have 24 s after the deletion, and the grace period of 30 s \
             suffices for that",
            "deployment/web successfully rolled out; no old pod holds a stream",
        ]
    );
    // The value of `--watch` needs its `=`, as in kubectl, so the workload may stand behind it.
    let said = cluster.run(&["rollout", "-w", "deployment/web", "-o", "json"])?.expect(0)?;
    let last = said.json_lines()?.pop().unwrap_or_default();
    assert_eq!((&last["object"], &last["state"]), (&json!("deployment/web"), &json!("done")));
    assert_eq!(last["message"], lines[1], "the same as the text");
    let selectors = cluster.server.asked();
    let lists = selectors.iter().filter(|asked| asked.path() == LIST);
    assert!(lists.into_iter().all(|asked| asked.target.contains("labelSelector=app%3Dweb")));
    Ok(())
}

#[test]
fn failures_and_time_outs_end_with_one() -> Outcome {
    let cluster = follow([3, 1, 4, 3], "ReplicaSetUpdated")?;
    let late = ["rollout", "deployment/web", "--timeout", "1s"];
    let said = cluster.run(&late)?.expect(1)?;
    let said = said.stdout_contains("waiting for deployment/web: 1 of 3 new pods are there")?;
    said.stderr_contains("timed out: deployment/web is not done after 1s")?;
    cluster.run(&["rollout", "deployment/web", "--watch=false"])?.expect(0)?;
    let cluster = follow([3, 1, 4, 3], "ProgressDeadlineExceeded")?;
    let said = cluster.run(&["rollout", "deployment/web"])?.expect(1)?;
    said.stderr_contains("exceeded its progress deadline")?;
    let cluster = Cluster::start(|_, _| Ok(status(404, "NotFound", "not found")))?;
    let said = cluster.run(&["rollout", "deployment/web"])?.expect(1)?;
    said.stderr_contains("deployments `web` in namespace `shop` does not exist")?;
    Ok(())
}

#[test]
fn an_api_server_that_restarts_does_not_end_a_rollout() -> Outcome {
    let cluster = Cluster::start(move |asked, before| {
        Ok(match (asked.path(), before) {
            (DEPLOYMENT, 0) => deployment([3, 1, 4, 3], "ReplicaSetUpdated"),
            (DEPLOYMENT, 1..=3) => status(503, "ServiceUnavailable", "restarting"),
            (DEPLOYMENT, _) => deployment([3, 3, 3, 3], "NewReplicaSetAvailable"),
            (LIST, _) => list(&[with_hook()], ""),
            _ => Answer::new(404),
        })
    })?;
    let said = cluster.run(&["rollout", "deployment/web"])?.expect(0)?;
    said.stdout_contains("status 503, restarting")?;
    Ok(())
}

#[test]
fn a_silent_api_server_does_not_outlast_the_time_out() -> Outcome {
    let cluster = Cluster::start(|_, _| Err(Fault::Silence(HANG)))?;
    let said = cluster.run(&["rollout", "deployment/web", "--timeout", "1s"])?.expect(1)?;
    said.stderr_contains("timed out: deployment/web")?;
    Ok(())
}

#[test]
fn a_missing_right_to_ask_the_gate_of_an_old_pod_is_named() -> Outcome {
    let pods = [with_hook(), deleted("web-0", "2200")];
    let cluster = Cluster::with_pods(&pods, |asked| match asked.path() {
        DEPLOYMENT => deployment([1, 1, 1, 1], "NewReplicaSetAvailable"),
        _ => status(403, "Forbidden", "no"),
    })?;
    let said = cluster.run(&["rollout", "deployment/web"])?.expect(1)?;
    let said = said.stderr_contains("no right to `get` `pods/portforward` in namespace `shop`")?;
    said.stderr_contains("the ClusterRole `laststream-reader`")?;
    Ok(())
}
