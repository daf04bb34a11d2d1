//! F1: three gateways, one of them held by a stream: the output of the commands for many pods, the
//! rights that they need, and whether `rollout` reports the same end as the client.

use std::time::Instant;

use super::machine::NAME;
use super::rolling::create_behind;
use super::workload::{Workload, routes};
use super::world::World;
use crate::load::HOST;
use crate::seen::row;
use kit::command::CommandOutput;
use kit::prelude::*;
use kit::process::Process;

const NAMESPACE: &str = "fleet";
/// The body of the request. The client sends it last, so the request lasts as long as it likes.
const BODY: &[u8] = b"done";
/// How long the client waits with the body after `rollout` has named the pod.
const HELD: Duration = Duration::from_secs(5);
const DEADLINE: &str = "200s";
const GRACE: u32 = 210;
/// The user with the rendered rights and no others.
const OPERATOR: &str = "operator";
const ROLE: &str = "fleet-reader";
/// The tolerance between the end that `rollout` reports and the end that the client sees, beside
/// what a command takes on this machine.
const CLOSE: Duration = Duration::from_secs(1);
/// How long `rollout` waits for the answer of a pod.
const SILENCE: Duration = Duration::from_secs(5);

pub(crate) async fn case() -> Outcome {
    let (world, _turn) = World::shared().await?;
    let gateway = Workload {
        replicas: 3,
        drain: Some(json!({ "deadline": DEADLINE })),
        grace: GRACE,
        ..Workload::gateway(NAMESPACE, "edge")
    };
    let routes = routes(NAMESPACE, "edge", &[(HOST, "backend.default")]);
    let pods = create_behind(&gateway, &routes, None, world).await?;
    let all_at_once = r#"{"spec": {"strategy": {"rollingUpdate": {"maxSurge": 3}}}}"#;
    let how = ["--type=merge", "--patch", all_at_once];
    world.cluster.patch(NAMESPACE, "deployment/edge", &how).await?;
    let held = pods.first().context("a pod")?;
    grant(world, None).await?;
    quiet(world).await?;
    let mut stream = Client::connect(held.listener()).await?;
    let head = Request::post("/", BODY).host(HOST).head_bytes();
    stream.send(&head).await?;
    one_holds(world, &held.name).await?;
    rollout(world, &held.name, stream).await?;
    one_right_less(world).await
}

/// Runs `laststream` as the operator.
async fn laststream(world: &World, arguments: &[&str]) -> Outcome<CommandOutput> {
    let whose = ["--namespace", NAMESPACE, "--as", OPERATOR];
    world.cluster.laststream(&[arguments, &whose].concat()).await
}

async fn pods_said(world: &World, more: &[&str]) -> Outcome<Vec<Value>> {
    let said = laststream(world, &[&["status", "-o", "json"], more].concat()).await?.expect(0)?;
    Ok(said.json()?["pods"].as_array().context("pods")?.clone())
}

/// Gives the operator the rights of `laststream-reader`; with `without`, one resource less.
async fn grant(world: &World, without: Option<&str>) -> Outcome {
    let file = kit::workspace().join("envoyfilter-manifests/rights/reader.yaml");
    let mut role: Value = serde_saphyr::from_str(&std::fs::read_to_string(file)?)?;
    if let Some(without) = without {
        let rules = role["rules"].as_array_mut().into_iter().flatten();
        let mut lists = rules.filter_map(|rule| rule["resources"].as_array_mut());
        let list = lists.find(|list| list.contains(&json!(without)));
        let list = list.with_context(|| format!("{without} is in no rule"))?;
        list.retain(|resource| resource != without);
        if list.is_empty() {
            list.push(json!("none"));
        }
    }
    // Other cases use the role itself.
    role["metadata"]["name"] = json!(ROLE);
    world.cluster.apply_all(&[role]).await?;
    world.cluster.bind(Some(NAMESPACE), &[ROLE], OPERATOR).await
}

/// Waits until three gates serve with an exact count, both by the gates' own answers and by
/// statistics.
async fn quiet(world: &World) -> Outcome {
    let gates = async |more: &[&str]| -> Outcome<Vec<Value>> {
        let pods = pods_said(world, more).await?;
        ensure_eq!(pods.len(), 3, "pods with a proxy");
        for pod in &pods {
            let words = ["class", "state", "life"].map(|field| &pod[field]);
            ensure_eq!(words, ["installed", "serving", "ready"], "{pod}");
        }
        Ok(pods)
    };
    let look = async || {
        let asked = gates(&["--every-gate"]).await?;
        let exact = asked.iter().all(|pod| pod["count"] == "exact" && pod["version"].is_string());
        ensure!(exact, "{asked:?}");
        let counted = gates(&[]).await?;
        ensure!(counted.iter().all(|pod| pod["count"] == "exact"), "{counted:?}");
        Ok(())
    };
    wait_for(PATIENCE, "three gates with an exact count", look).await?;
    let table = async || {
        let table = laststream(world, &["status"]).await?.expect(0)?;
        let words = "3 pods with a proxy: 3 serving, 0 streams in flight";
        table.stderr_contains(words).map(drop)
    };
    wait_for(PATIENCE, "the table", table).await?;
    row("F1", "`status` of three gateways", "3 serving, `exact`, with `laststream-reader`");
    Ok(())
}

/// Checks that only this pod has a stream in flight, and exactly one.
async fn one_holds(world: &World, held: &str) -> Outcome {
    wait_for(PATIENCE, "one stream in one pod", async || {
        for pod in &pods_said(world, &[]).await? {
            let expected = u64::from(pod["pod"] == held);
            ensure_eq!(pod["in_flight"]["gateway"].as_u64(), Some(expected), "{pod}");
        }
        Ok(())
    })
    .await?;
    // On a busy machine a worker may answer too late, and the listing says so.
    wait_for(PATIENCE, "a complete listing", async || {
        let listing = laststream(world, &["streams", "-o", "json"]).await?.expect(0)?.json()?;
        let streams = listing["streams"].as_array().context("streams")?;
        ensure!(
            streams.len() == 1 && streams[0]["pod"] == held && listing["complete"] == true,
            "one stream in {held}: {listing}"
        );
        Ok(())
    })
    .await?;
    let of_node = async || {
        let said = laststream(world, &["status", "--node", NAME]).await?.expect(0)?.stdout;
        let line = said.lines().find(|line| line.contains(held)).context("the held pod")?;
        ensure!(line.contains("holding 1: "), "{said}");
        Ok(line.to_owned())
    };
    let line = wait_for(PATIENCE, "the pods of the node", of_node).await?;
    row("F1", "one of them with a stream: `status --node`", line);
    Ok(())
}

/// Follows a rollout from its beginning to its end, which the client brings about: it ends its
/// stream once `rollout` has said that the stream holds the pod.
async fn rollout(world: &World, held: &str, mut stream: Client) -> Outcome {
    world.restart(NAMESPACE, "edge").await?;
    let began = Instant::now();
    let follow = ["rollout", "deployment/edge", "--namespace", NAMESPACE, "--as", OPERATOR];
    let mut follower = Process::capture(&world.cluster.laststream_command(&follow)?)?;
    let says = async |what: &str| {
        wait_for(PATIENCE, what, async || {
            let said = follower.stdout();
            let line = said.lines().find(|line| line.contains(what));
            Ok(line.with_context(|| format!("{said}\n{}", follower.stderr()))?.to_owned())
        })
        .await
    };
    let beforehand = says(" s suffices").await?;
    ensure!(beforehand.contains("the grace period of "), "{beforehand}");
    let first_line = began.elapsed();
    let line = says("holding 1: ").await?;
    ensure!(line.starts_with(&format!("pod/{held}: draining")), "{line}");
    tokio::time::sleep(HELD).await;
    let sent = began.elapsed();
    stream.send(BODY).await?;
    stream.response("POST").await?.expect(200)?;
    let client = began.elapsed();
    let status = follower.wait(PATIENCE).await?;
    let ended = began.elapsed();
    let last = async || {
        let said = follower.stdout();
        Ok((reported_end(&said)?, said))
    };
    ensure!(status.success(), "{status}: {}\n{}", follower.stdout(), follower.stderr());
    let (own, said) = wait_for(PATIENCE, "the last line", last).await?;
    let others = said.lines().filter(|line| line.contains("holding 1: ") && !line.contains(held));
    ensure_eq!(others.count(), 0, "other pods that hold: {said}");
    // `rollout` counts from its own beginning, before its first line.
    let is_early = own + first_line + CLOSE < sent;
    let is_late = own > client + first_line + SILENCE + CLOSE;
    ensure!(
        !is_early && !is_late,
        "the rollout says {own:?}, and the client {sent:?} to {client:?}: {said}"
    );
    row("F1", "what `rollout` prints of the held pod", line);
    row(
        "F1",
        "when the last stream ended",
        format!(
            "`rollout`: {:.1} s, the client: {:.1} s; `rollout` ended after {:.1} s with 0",
            own.as_secs_f64(),
            client.as_secs_f64(),
            ended.as_secs_f64()
        ),
    );
    Ok(())
}

/// The time at which the last stream ended, by the last line of `rollout`. Behind it may stand how
/// many old pods it did not hear of: an idle one may end between two of its questions.
fn reported_end(said: &str) -> Outcome<Duration> {
    let seconds = said
        .lines()
        .last()
        .and_then(|line| line.split_once("the last stream of its old pods ended after "))
        .and_then(|(_, rest)| rest.split_once(" s")?.0.parse().ok())
        .with_context(|| format!("when the last stream ended in {said}"))?;
    Ok(Duration::from_secs_f64(seconds))
}

/// The arguments of a verb.
fn arguments(verb: &str) -> Vec<&'static str> {
    match verb {
        "status" => vec!["status"],
        "streams" => vec!["streams"],
        _ => vec!["rollout", "deployment/edge", "--watch=false"],
    }
}

/// Arguments that need this right of the verb, and the exit code without it.
fn without(verb: &str, resource: &str) -> (Vec<&'static str>, i32) {
    let mut arguments = arguments(verb);
    let code = if verb == "rollout" { 1 } else { 2 };
    match (verb, resource) {
        ("status", "pods/portforward") => arguments.push("--every-gate"),
        // Where no gate answers, the statistics are read.
        ("streams", "pods/proxy") => arguments.extend(["--gate-port", "1"]),
        ("rollout", "statefulsets") => arguments[1] = "statefulset/edge",
        ("rollout", "daemonsets") => arguments[1] = "daemonset/edge",
        ("rollout", "rollouts") => arguments[1] = "rollout/edge",
        _ => {}
    }
    (arguments, code)
}

/// The resources that each verb reads, with the right that its error names.
const RIGHTS: [(&str, &[(&str, &str)]); 3] = [
    ("status", &[("list", "pods"), ("get", "pods/proxy"), ("get", "pods/portforward")]),
    ("streams", &[("list", "pods"), ("get", "pods/proxy"), ("get", "pods/portforward")]),
    (
        "rollout",
        &[
            ("list", "pods"),
            ("get", "deployments"),
            ("get", "statefulsets"),
            ("get", "daemonsets"),
            ("get", "rollouts"),
        ],
    ),
];

/// Runs each verb without each of its rights; the error must name the right.
async fn one_right_less(world: &World) -> Outcome {
    let mut rights = 0;
    for (verb, needed) in RIGHTS {
        for (right, resource) in needed {
            let (arguments, code) = without(verb, resource);
            grant(world, Some(resource)).await?;
            let wanted = format!("no right to `{right}` `{resource}` in namespace `{NAMESPACE}`");
            let look = async || {
                // The API server applies changed rights a little later.
                let said = laststream(world, &arguments).await?.expect(code)?;
                said.stderr_contains(&wanted)?.stderr_contains("`laststream-reader`").map(drop)
            };
            wait_for(PATIENCE, &format!("{verb} without {resource}"), look).await?;
            rights += 1;
        }
        grant(world, None).await?;
        let look = async || laststream(world, &arguments(verb)).await?.expect(0).map(drop);
        wait_for(PATIENCE, &format!("{verb} with its rights"), look).await?;
    }
    row(
        "F1",
        format!("three verbs with their rights, and without each of {rights}"),
        "the rights suffice; the missing one is named with verb and resource",
    );
    Ok(())
}
