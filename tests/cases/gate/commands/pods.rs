//! Pods by their names: a fake API server forwards the port of each to a real gate.

use super::{Operator, shows};
use crate::cases::gate::bench::{Bench, same};
use crate::lab::{Lab, cases};
use kit::fake_server::{Answer, FakeServer, Fault};
use kit::prelude::*;

cases! {
    a_pod_is_released_by_its_name,
}

async fn a_pod_is_released_by_its_name(lab: &Lab) -> Outcome {
    let bench = Bench::set(lab, r#"{"quiet_ms": 300, "deadline_ms": 90000}"#).await?;
    let cluster = cluster_of(&bench)?;
    let operator = Operator::beside(&bench)?;
    let config = operator.0.argument("kubeconfig", kubeconfig(&cluster.url("")))?;
    let operator = operator.set("KUBECONFIG", &config)?;
    let _held = bench.held("a").await?;
    let force = ["drain", "pod/web-1", "-n", "shop", "--force", "--reason", "incident 42"];
    operator.runs(&force).await?.expect(64)?.stderr_contains("give `--yes`")?;
    same(&bench.status().await?, "state", "serving")?;
    let begun = operator.runs(&["drain", "web-1", "-n", "shop", "--yes"]).await?.expect(0)?;
    shows(&begun, "pod/web-1: draining: the drain has begun; 1 stream holds the drain\n")?;
    let streams = operator.runs(&["streams", "web-1", "-n", "shop"]).await?.expect(0)?;
    shows(&streams, "web-1  ")?;
    let wait = ["wait", "web-1", "-n", "shop", "--timeout", "0s"];
    let waits = operator.runs(&wait).await?.expect(1)?;
    waits.stderr_contains("its drain is not over: draining: 1 stream holds the drain")?;
    operator.runs(&[&force[..], &["--yes"]].concat()).await?.expect(0)?;
    same(&bench.status().await?, "reason", "forced: incident 42")?;
    let forced = operator.runs(&wait).await?.expect(1)?;
    shows(&forced, "pod/web-1: forced: incident 42; 1 stream is in flight, and is cut")
}

/// An API server with one pod, whose gate is this one.
fn cluster_of(bench: &Bench) -> Outcome<FakeServer> {
    let gate = bench.gate;
    let pod = json!({
        "metadata": { "name": "web-1", "namespace": "shop", "uid": "1" },
        "spec": { "containers": [{ "name": "istio-proxy" }] },
        "status": { "containerStatuses": [{
            "name": "istio-proxy", "image": "", "imageID": "", "ready": true, "restartCount": 0,
            "state": { "running": {} },
        }] },
    });
    let list = json!({ "kind": "PodList", "apiVersion": "v1", "metadata": {}, "items": [pod] });
    FakeServer::start(move |asked, _| match asked.path() {
        "/api/v1/namespaces/shop/pods/web-1/portforward" => Err(Fault::Forward(gate)),
        "/api/v1/namespaces/shop/pods" => Ok(Answer::new(200).body(list.to_string())),
        _ => Ok(Answer::new(404)),
    })
}

fn kubeconfig(server: &str) -> String {
    let config = json!({
        "apiVersion": "v1", "kind": "Config", "current-context": "test",
        "clusters": [{ "name": "test", "cluster": { "server": server } }],
        "contexts": [{ "name": "test", "context": { "cluster": "test" } }],
    });
    config.to_string()
}
