//! What `laststream size` proposes from a Prometheus and from files.

use std::fs;
use std::process::Command;

use kit::Outcome;
use kit::command::run;
use kit::fake_server::{Answer, Asked, FakeServer};
use serde_json::{Value, json};

use crate::cli::support::{PROGRAM, laststream};

fn answer(status: u16, body: &Value) -> Answer {
    Answer::new(status).with("content-type", "application/json").body(body.to_string())
}

fn result() -> Value {
    let bucket =
        |bound: &str, count: &str| json!({ "metric": { "le": bound }, "value": [0, count] });
    let series = json!([bucket("1000", "900"), bucket("20000", "1000"), bucket("+Inf", "1000")]);
    json!({ "status": "success", "data": { "result": series } })
}

fn prometheus() -> Outcome<FakeServer> {
    FakeServer::start(|_, _| Ok(answer(200, &result())))
}

fn size(server: &FakeServer) -> Command {
    let mut size = Command::new(PROGRAM);
    size.env_clear().args(["size", "--prometheus", &server.url(""), "-o", "json"]);
    size
}

/// Requests that last up to 20 s: a drain finds one in a thousand that still lasts 19 s.
#[test]
fn deadline_and_grace_period_follow_from_the_durations() -> Outcome {
    let server = prometheus()?;
    let said = run(size(&server).args(["--selector", "namespace=\"shop\""]))?.expect(0)?.json()?;
    let times = ["longest_request_ms", "deadline_ms", "grace_period_ms", "drain_duration_ms"];
    assert_eq!(times.map(|time| said[time].as_u64()), [20_000, 23_000, 28_000, 35_000].map(Some));
    assert_eq!((&said["warnings"], server.asked().len()), (&json!([]), 1), "{said}");
    assert_eq!(said["requests"], 1000);
    let shop = |asked: &Asked| asked.target.contains("namespace%3D%22shop%22");
    assert!(server.asked().iter().all(shop));
    let said = run(size(&server).args(["--cut", "10", "--agent", "0s", "--delay", "10s"]))?;
    let said = said.expect(0)?.json()?;
    assert_eq!(times.map(|time| said[time].as_u64()), [13_000, 26_000, 28_000, 39_000].map(Some));
    Ok(())
}

/// A histogram does not say how long the requests above its last bound last, and one of few
/// requests little about any.
#[test]
fn requests_above_the_last_bucket_and_few_of_them_are_a_warning() -> Outcome {
    let folder = tempfile::tempdir()?;
    let bucket = "istio_request_duration_milliseconds_bucket";
    let page = format!("{bucket}{{le=\"5000\"}} 8\n{bucket}{{le=\"+Inf\"}} 10\n");
    fs::write(folder.path().join("stats.txt"), page)?;
    let said = laststream(folder.path(), ["size", "stats.txt"])?.expect(0)?;
    said.stdout_contains("drain: {longest_request: 5s}")?
        .stderr_contains("25.0 % of the streams in flight last longer than 5 s")?
        .stderr_contains("10 requests are few")?;
    fs::write(folder.path().join("none.txt"), "nothing")?;
    laststream(folder.path(), ["size", "none.txt"])?.expect(2)?.stderr_contains("15090")?;
    Ok(())
}

#[test]
fn wrong_values_are_wrong_arguments() -> Outcome {
    for (arguments, words) in [
        (["--prometheus", "http://127.0.0.1:1", "--cut", "101"], "`101` is not from 0 to 100"),
        (["--prometheus", "http://me:hunter2@127.0.0.1:1", "--cut", "1"], "without a user"),
        (["--prometheus", "127.0.0.1:9090", "--cut", "1"], "write the address as `http://"),
        (["--prometheus", "http://127.0.0.1:1", "--metric", "a"], "`a` does not say its unit"),
    ] {
        let said = run(Command::new(PROGRAM).arg("size").args(arguments))?.expect(64)?;
        said.stderr_contains(words)?.hides("hunter2")?;
    }
    Ok(())
}

/// Thanos Query replies with such a warning if one of its stores does not answer.
#[test]
fn warnings_of_prometheus_are_reported_once() -> Outcome {
    let server = FakeServer::start(|_, _| {
        let mut body = result();
        body["warnings"] = json!(["receive series: refused"]);
        Ok(answer(200, &body))
    })?;
    let said = run(&mut size(&server))?.expect(0)?;
    let warning = "Prometheus warns: receive series: refused; the result may lack streams";
    assert_eq!(said.stderr, format!("warning: {warning}\n"));
    assert_eq!(said.json()?["warnings"], json!([warning]));
    Ok(())
}

/// Such requests are in Envoy's histogram, but they are no streams.
#[test]
fn requests_to_envoy_itself_are_left_out() -> Outcome {
    for (metric, leaves_out) in
        [("envoy_http_downstream_rq_time", true), ("istio_request_duration_milliseconds", false)]
    {
        let server = prometheus()?;
        run(size(&server).args(["--metric", metric]))?.expect(0)?;
        let asked = server.asked();
        let queries: Vec<_> = asked.iter().filter_map(|asked| asked.parameter("query")).collect();
        let own = "_prefix%21%7E%22admin%7Cstats%7Csecure_stats%7C";
        assert!(
            !queries.is_empty() && queries.iter().all(|query| query.contains(own) == leaves_out),
            "{queries:?}"
        );
    }
    Ok(())
}
