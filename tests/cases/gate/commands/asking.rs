//! `status`, `streams`, `drain`, and a `wait` that asks once.

use super::Operator;
use crate::cases::gate::bench::{Bench, SOON, same};
use crate::cases::stage::routes;
use crate::lab::{Lab, cases};
use kit::bootstrap::filters::filter_state;
use kit::prelude::*;

cases! {
    status_prints_state_and_counts,
    cancels_a_drain,
    opens_by_force,
    sends_the_secret_and_never_shows_it,
    rejects_answers_that_are_not_a_gates,
}

async fn status_prints_state_and_counts(lab: &Lab) -> Outcome {
    let request = filter_state("laststream.request", "%REQ(:METHOD)% %REQ(:PATH)%");
    let main = routes(Hcm::new("main").filter(request).filter(lab.stream("{}").filter()));
    let bench = Bench::with(lab, r#"{"quiet_ms": 300}"#, main).await?;
    // Requests to the gate must not use the proxies of the environment.
    let operator = Operator::beside(&bench)?
        .set("http_proxy", "http://127.0.0.1:1")?
        .set("ALL_PROXY", "http://127.0.0.1:1")?;
    let mut client = bench.held("a").await?;
    let text = operator.runs(&["status"]).await?.expect(0)?;
    text.stdout_contains("serving: no drain was asked for\n")?
        .stdout_contains("  gateway   1 in flight; 1 begun in all\n")?;
    let ready = operator.runs(&["wait", "--timeout", "0s"]).await?.expect(1)?;
    let no_drain = "serving: no drain was asked for; 1 stream would hold a drain\n";
    ensure_eq!((ready.stdout.as_str(), ready.stderr.as_str()), (no_drain, ""), "what it says");
    let drain = operator.runs(&["drain"]).await?.expect(0)?;
    let expected = "draining: the drain has begun; 1 stream holds the drain\n";
    ensure_eq!(drain.stdout, expected, "the drain");
    bench.until("begin", "done").await?;
    let text = operator.runs(&["status"]).await?.expect(0)?;
    text.stdout_contains("draining: 1 stream is in flight\n")?.stdout_contains("begin done")?;
    let json = operator.runs(&["status", "-o", "json"]).await?.expect(0)?;
    let own = bench.status().await?;
    // Envoy's own counts are in the status only while they are fresh.
    let lasts = |key: &&String| !["envoy_active", "buffered_bytes"].contains(&key.as_str());
    let keys = |value: &serde_json::Value| {
        value.as_object().map(|object| object.keys().filter(lasts).cloned().collect::<Vec<_>>())
    };
    ensure_eq!(keys(&json.json_lines()?[0]), keys(&own), "the gate's own body");
    let table = operator.runs(&["streams"]).await?.expect(0)?;
    table
        .stdout_contains("draining: 1 stream holds the drain\nAGE")?
        .stdout_contains(&bench.upstream.h1().to_string())?
        .stdout_contains("rest")?
        .stdout_contains("GET /hold/a\n")?;
    let json =
        operator.runs(&["streams", "--limit", "1", "-o", "json"]).await?.expect(0)?.json_lines()?;
    same(&json[0]["streams"][0], "request", "GET /hold/a")?;
    operator.runs(&["streams", "--limit", "101"]).await?.expect(64)?;
    bench.release("a", &mut client).await?;
    bench.until("state", "drained").await?;
    let ready = operator.runs(&["wait", "--timeout", "0s"]).await?.expect(0)?;
    ensure_eq!(ready.stdout, "drained: the last stream has ended\n", "what it says");
    Ok(())
}

async fn cancels_a_drain(lab: &Lab) -> Outcome {
    let undoable = r#"{"quiet_ms": 300, "begin": {"call": "fail_health_checks"}}"#;
    cancels(lab, undoable, "serving: the drain was cancelled").await?;
    cancels(lab, r#"{"quiet_ms": 300}"#, "Envoy cannot undrain its listeners").await
}

/// A drain is cancelled, and the answer contains these words.
async fn cancels(lab: &Lab, gate: &str, words: &str) -> Outcome {
    let bench = Bench::set(lab, gate).await?;
    let operator = Operator::beside(&bench)?;
    let _held = bench.held("a").await?;
    operator.runs(&["drain"]).await?.expect(0)?;
    bench.until("begin", "done").await?;
    operator.runs(&["drain", "--cancel"]).await?.expect(0)?.stdout_contains(words)?;
    same(&bench.status().await?, "state", "serving")
}

async fn opens_by_force(lab: &Lab) -> Outcome {
    let bench = Bench::set(lab, "{}").await?;
    let operator = Operator::beside(&bench)?;
    let held = bench.held("a").await?;
    for wrong in [
        &["drain", "--force"][..],
        &["drain", "--force", "--reason", " "],
        &["drain", "--reason", "x"],
        &["drain", "--force", "--cancel", "--reason", "x"],
    ] {
        operator.runs(wrong).await?.expect(64)?;
    }
    same(&bench.status().await?, "state", "serving")?;
    let forced = operator
        .runs(&["drain", "--force", "--reason", "the app & its 50% ☕ are gone", "-o", "json"])
        .await?
        .expect(0)?;
    same(&forced.json_lines()?[0], "state", "forced")?;
    same(&bench.status().await?, "reason", "forced: the app & its 50% ☕ are gone")?;
    let line = bench.envoy.wait_for_log("forced open: the app & its 50% ☕ are gone", SOON).await?;
    ensure!(line.contains("[critical]"), "{line}");
    // The gate stays open until that drain is cancelled, and the exit code says so.
    operator.runs(&["drain"]).await?.expect(1)?.stdout_contains("forced: no drain begins")?;
    operator.runs(&["drain", "--cancel"]).await?.expect(0)?;
    operator.runs(&["drain"]).await?.expect(0)?;
    drop(held);
    Ok(())
}

async fn sends_the_secret_and_never_shows_it(lab: &Lab) -> Outcome {
    const SECRET: &str = "open-sesame-0123456789";
    const WRONG: &str = "close-sesame-987654321";
    let bench = Bench::set(lab, &format!(r#"{{"quiet_ms": 300, "secret": "{SECRET}"}}"#)).await?;
    let (without, wrong) =
        (Operator::beside(&bench)?, Operator::beside(&bench)?.set("LASTSTREAM_SECRET", WRONG)?);
    let right = Operator::beside(&bench)?.set("LASTSTREAM_SECRET", SECRET)?;
    let changes = [
        &["streams"][..],
        &["drain"],
        &["drain", "--cancel"],
        &["drain", "--force", "--reason", "x"],
        &["prestop", "--timeout", "300ms"],
    ];
    for arguments in changes {
        for operator in [&without, &wrong] {
            let said = operator
                .runs(arguments)
                .await?
                .expect(2)?
                .stderr_contains("x-laststream-secret is missing or wrong")?;
            said.stderr_contains("LASTSTREAM_SECRET or `--secret-file`")?.hides(WRONG)?;
        }
    }
    same(&bench.status().await?, "state", "serving")?;
    without.runs(&["status"]).await?.expect(0)?;
    right.runs(&["streams"]).await?.expect(0)?.hides(SECRET)?;
    let file = wrong.0.argument("secret", format!("{SECRET}\n"))?;
    wrong.runs(&["drain", "--secret-file", &file]).await?.expect(0)?.hides(SECRET)?;
    right.runs(&["prestop", "--timeout", "20s"]).await?.expect(0)?.hides(SECRET)?;
    ensure!(!bench.envoy.log().contains(WRONG), "the secret is in Envoy's log");
    Ok(())
}

async fn rejects_answers_that_are_not_a_gates(lab: &Lab) -> Outcome {
    let bench = Bench::set(lab, "{}").await?;
    for (url, words) in [
        (format!("http://{}", bench.main), "is this a gate?"),
        (format!("http://{}", bench.upstream.refused()), "no program listens there"),
        (format!("http://{}", bench.upstream.tcp()), "the gate at"),
        (format!("http://{}/prefix", bench.gate), "there is no such path"),
    ] {
        let operator = Operator::at(&url)?;
        for command in [&["status"][..], &["streams"], &["wait", "--timeout", "0s"], &["drain"]] {
            operator.runs(command).await?.expect(2)?.stderr_contains(words)?;
        }
    }
    Ok(())
}
