//! The lanes have the expected results on real Envoys. If a result differs, the demo says so.

use kit::Outcome;
use kit::command::run;
use kit::process::Process;
use kit::user::write_script;
use laststream_base::progress::Silent;
use laststream_local::envoy::{NEWEST, OLDEST, Wanted, find_or_get};
use serde_json::{Value, json};

use crate::demo::support::Place;

fn lane<'a>(outcome: &'a Value, name: &str) -> &'a Value {
    outcome["lanes"]
        .as_array()
        .unwrap()
        .iter()
        .find(|lane| lane["lane"] == name)
        .unwrap_or_else(|| panic!("no {name} in {outcome}"))
}

fn number(value: &Value) -> f64 {
    value.as_f64().unwrap_or_else(|| panic!("{value} is no number"))
}

/// The oldest and the newest Envoy, at the same time.
#[test]
fn lanes_have_the_expected_results() -> Outcome {
    let demos = [OLDEST, NEWEST].map(|version| {
        find_or_get(&Wanted::version(version), &Silent).unwrap();
        let place = Place::new();
        let options = format!("--quick --report page.html -o json --envoy-version {version}");
        let demo = place.demo(&options.split(' ').collect::<Vec<_>>());
        (Process::capture(&demo).unwrap(), place, version)
    });
    for (mut demo, place, version) in demos {
        let output = demo.finish()?.expect(0)?;
        let outcome = output.json()?;
        assert_eq!(outcome["envoy"], version.to_string());
        assert_eq!(outcome["surprises"], json!([]));
        check(&outcome);
        check_page(&std::fs::read_to_string(place.path().join("page.html"))?);
        let output = output.stderr_contains("kubelet: the pod is deleted")?;
        output.hides("\u{1b}")?;
        assert_eq!((place.envoys(), place.folders()), (0, 0));
    }
    Ok(())
}

/// The expected results, independent of the demo's own expectations.
fn check(outcome: &Value) {
    for (name, request, websocket, executions, ended_by) in [
        ("laststream", "200", "closed", 1, "itself"),
        ("as_installed", "503", "cut", 1, "drain_time"),
        ("drain_duration", "200", "closed", 1, "drain_time"),
        ("exit_on_zero", "200", "closed", 1, "sigkill"),
        ("sleep", "200", "cut", 1, "drain_time"),
        ("netstat", "200", "closed", 1, "sigkill"),
        ("retries", "200", "cut", 2, "drain_time"),
    ] {
        let lane = lane(outcome, name);
        let found = ["request", "websocket"].map(|stream| &lane[stream]["result"]);
        let found = json!([found, lane["executions"], lane["ended_by"]]);
        assert_eq!(found, json!([[request, websocket], executions, ended_by]), "{name}: {lane:#}");
    }
    let times = &outcome["times"];
    let grace_ends = number(&times["delete_after"]) + number(&times["grace_period"]);
    let [request, websocket] = ["request", "websocket"].map(|stream| number(&times[stream]));
    let answered = |name| number(&lane(outcome, name)["request"]["at"]);
    let envoy_ended = |name| number(&lane(outcome, name)["envoy_ended"]);
    assert!(answered("as_installed") < request, "cut before its time");
    assert!(answered("laststream") >= request && answered("retries") > answered("laststream"));
    assert!(envoy_ended("laststream") >= websocket);
    assert!(envoy_ended("laststream") < envoy_ended("drain_duration"), "the same deadline");
    assert!(envoy_ended("exit_on_zero") >= grace_ends && envoy_ended("netstat") >= grace_ends);
    let seen: Vec<_> = outcome["forwarded_proto"]["rows"]
        .as_array()
        .unwrap()
        .iter()
        .map(|row| json!([row["nothing"], row["lua"], row["laststream"]]))
        .collect();
    assert_eq!(
        json!(seen),
        json!([["http", "https", "http"], ["http", "https", "https"], ["http", "https", "http"]])
    );
}

fn check_page(page: &str) {
    for part in ["Only laststream", "cut at", "twice", "s, SIGKILL", "one idle connection held"] {
        assert!(page.contains(part), "{part} is not in {page}");
    }
    for foreign in ["<script", "http://", "https://"] {
        assert!(!page.contains(foreign), "the page needs nothing else: {page}");
    }
}

/// A gate that waits for too long: Envoy then stays for the agent's fixed time.
#[test]
fn a_lane_with_an_unexpected_result_is_reported() -> Outcome {
    let place = Place::new();
    let real = find_or_get(&Wanted::version(NEWEST), &Silent).unwrap().binary;
    let script = place.path().join("envoy");
    let text = format!(
        "for file; do case $file in */laststream-0.json) \
         sed -i 's/\\(quiet_ms[^0-9]*\\)[0-9]*/\\13000/' \"$file\";; esac; done\nexec {} \"$@\"",
        real.display()
    );
    write_script(&script, &text)?;
    run(place.demo(&["--quick"]).env("LASTSTREAM_ENVOY", &script))?
        .expect(1)?
        .stdout_contains("stopped by")?
        .hides("Only laststream")?
        // Colours are for terminals, and standard output is none here.
        .hides("\u{1b}")?
        .stderr_contains(
            "not as expected: laststream: expected Envoy to be ended by itself, but it was ended \
             by its agent, a fixed time after SIGTERM",
        )?;
    Ok(())
}
