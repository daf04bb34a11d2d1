//! The queries of `laststream size` to Prometheus, and its examples for files.

use std::fs;
use std::path::Path;
use std::process::Command;

use kit::Outcome;
use kit::command::run;
use kit::fake_server::{Answer, Asked, FakeServer};
use serde_json::{Value, json};

use crate::support::{PROGRAM, laststream};

fn answer(status: u16, body: &Value) -> Answer {
    Answer::new(status).with("content-type", "application/json").body(body.to_string())
}

/// The reply of a Prometheus in which two jobs scrape each of two proxies. With `records`, rules
/// record one of the jobs.
fn result(asked: &Asked, records: bool) -> Value {
    let query = asked.parameter("query").unwrap_or_default();
    let bucket =
        |bound: &str, count: &str| json!({ "metric": { "le": bound }, "value": [0, count] });
    let series = if query.contains("count_over_time") {
        json!([{ "metric": {}, "value": [0, "12"] }]) // steps of five minutes in 24 h
    } else if query.contains("_bucket") {
        json!([bucket("1000", "90"), bucket("+Inf", "100")])
    } else if query.contains("laststream_streams_in_flight") {
        json!([{ "metric": {}, "value": [0, "4"] }])
    } else if records {
        json!([{ "metric": {}, "value": [0, "2"] }])
    } else {
        json!([])
    };
    json!({ "status": "success", "data": { "result": series } })
}

fn prometheus(records: bool) -> Outcome<FakeServer> {
    FakeServer::start(move |asked, _| Ok(answer(200, &result(asked, records))))
}

/// The part of an example before the semicolon asks a cluster or a pod; the files hold its output.
#[test]
fn examples_with_files_run() -> Outcome {
    let folder = tempfile::tempdir()?;
    let listing = json!({
        "state": "serving", "holding": 1, "complete": true,
        "streams": [{ "scope": "inbound", "age_ms": 60_000 }],
    });
    fs::write(folder.path().join("streams.json"), listing.to_string())?;
    let bucket = "istio_request_duration_milliseconds_bucket";
    let histogram = format!("{bucket}{{le=\"500\"}} 8\n{bucket}{{le=\"+Inf\"}} 10\n");
    fs::write(folder.path().join("stats.txt"), histogram)?;
    let help = laststream(Path::new("."), ["size", "--help"])?.expect(0)?.stdout;
    let (_, examples) = help.split_once("Examples:\n").unwrap();
    let examples = examples.lines().filter(|line| !line.contains("--prometheus"));
    let commands: Vec<_> = examples
        .filter_map(|line| line.rsplit("; ").next()?.trim().strip_prefix("laststream "))
        .collect();
    assert_eq!(commands.len(), 3, "{help}");
    for command in commands {
        laststream(folder.path(), command.split_whitespace())?.expect(0)?;
    }
    Ok(())
}

#[test]
fn a_proxy_that_two_jobs_scrape_is_one_proxy() -> Outcome {
    for (records, pods) in [(true, 2), (false, 4)] {
        let server = prometheus(records)?;
        let mut size = Command::new(PROGRAM);
        size.env_clear().args(["size", "--prometheus", &server.url(""), "-o", "json"]);
        let said = run(size.args(["--selector", "namespace=\"shop\""]))?.expect(0)?.json()?;
        assert_eq!(said["rollout"]["pods"], pods, "{said}");
        let asked = server.asked();
        let gauges = asked.iter().filter(|asked| asked.target.contains("in_flight"));
        assert!(gauges.into_iter().all(|asked| asked.target.contains("namespace%3D%22shop%22")));
        assert!(!asked.iter().any(|asked| asked.target.contains("scope")), "every scope counts");
    }
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

/// A proxy's loopback interface is another machine's, and the token would pass the proxy.
#[test]
fn a_prometheus_on_this_machine_is_asked_without_the_proxy() -> Outcome {
    let (server, proxy) = (prometheus(true)?, FakeServer::start(|_, _| Ok(Answer::new(403)))?);
    let mut size = Command::new(PROGRAM);
    size.env_clear().env("HTTP_PROXY", proxy.url("")).env("ALL_PROXY", proxy.url(""));
    run(size.args(["size", "--prometheus", &server.url("")]))?.expect(0)?;
    assert_eq!(proxy.asked().len(), 0);
    Ok(())
}

#[test]
fn a_rate_is_computed_over_the_time_that_has_data() -> Outcome {
    let server = prometheus(true)?;
    let mut size = Command::new(PROGRAM);
    size.env_clear().args(["size", "--prometheus", &server.url(""), "-o", "json"]);
    let said = run(size.args(["--pods", "1"]))?.expect(0)?.json()?;
    let rate = said["streams"]["per_second_per_pod"].as_f64().unwrap_or_default();
    assert!((rate - 100.0 / 3_600.0).abs() < 1e-6, "{said}");
    let source = said["source"].as_str().unwrap_or_default();
    assert!(source.ends_with(", of which Prometheus has 3600s"), "{said}");
    Ok(())
}

/// Thanos Query replies with such a warning if one of its stores does not answer.
#[test]
fn warnings_of_prometheus_are_reported_once() -> Outcome {
    let server = FakeServer::start(|asked, _| {
        let mut body = result(asked, true);
        body["warnings"] = json!(["receive series: refused"]);
        Ok(answer(200, &body))
    })?;
    let mut size = Command::new(PROGRAM);
    size.env_clear().args(["size", "--prometheus", &server.url(""), "-o", "json"]);
    let said = run(&mut size)?.expect(0)?;
    let warning = "Prometheus warns: receive series: refused; the result may lack streams";
    assert_eq!(said.stderr, format!("warning: {warning}\n"));
    assert_eq!(said.json()?["warnings"], json!([warning]));
    Ok(())
}

#[test]
fn queries_that_need_too_much_memory_are_reported_and_replaced() -> Outcome {
    let server = FakeServer::start(|asked, _| {
        let query = asked.parameter("query").unwrap_or_default();
        let is_subquery = query.contains("_over_time");
        let error = json!({ "status": "error", "error": "it would load too many samples" });
        Ok(if is_subquery { answer(422, &error) } else { answer(200, &result(asked, true)) })
    })?;
    let mut size = Command::new(PROGRAM);
    size.env_clear().args(["size", "--prometheus", &server.url(""), "--window", "24h"]);
    let said = run(&mut size)?.expect(0)?;
    let said = said.stderr_contains("too many samples; the rate is that of the whole window")?;
    let said = said.stderr_contains("too many samples; the streams in flight follow from rate")?;
    said.stdout_contains("of the last 86400s\n")?;
    Ok(())
}

/// Such requests are in Envoy's histogram, but they are no streams.
#[test]
fn requests_to_envoy_itself_are_left_out() -> Outcome {
    let server = prometheus(true)?;
    for (metric, leaves_out) in
        [("envoy_http_downstream_rq_time", true), ("istio_request_duration_milliseconds", false)]
    {
        let mut size = Command::new(PROGRAM);
        size.env_clear().args(["size", "--prometheus", &server.url(""), "--metric", metric]);
        run(&mut size)?.expect(0)?;
        let asked = server.asked();
        let buckets = asked.iter().filter_map(|asked| asked.parameter("query"));
        let mut buckets = buckets.filter(|query| query.contains(&format!("{metric}_bucket")));
        let own = "_prefix%21%7E%22admin%7Cstats%7Cagent%7C";
        assert!(buckets.all(|query| query.contains(own) == leaves_out), "{asked:?}");
    }
    Ok(())
}
