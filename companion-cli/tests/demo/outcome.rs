//! The lanes have the expected results on real Envoys. If a result differs, the demo says so.

use kit::Outcome;
use kit::command::run;
use kit::process::Process;
use kit::user::write_script;
use laststream_base::progress::Silent;
use laststream_local::envoy::{NEWEST, OLDEST, Wanted, find_or_get};
use serde_json::{Value, json};

use crate::support::Place;

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
    for (name, status, lost, executions, ended_by) in [
        ("laststream", 200, false, 1, "drained"),
        ("no_hook", 503, true, 1, "drain_time"),
        ("app_sleeps", 503, true, 1, "drain_time"),
        ("exit_on_zero", 200, false, 1, "sigkill"),
        ("netstat", 200, false, 1, "sigkill"),
        ("netstat_fixed", 200, false, 1, "drain_time"),
        ("retries", 200, false, 2, "drain_time"),
        ("native_sidecar", 200, false, 1, "drained"),
    ] {
        let lane = lane(outcome, name);
        let found = json!([lane["status"], lane["lost"], lane["executions"], lane["ended_by"]]);
        assert_eq!(found, json!([status, lost, executions, ended_by]), "{name}: {lane:#}");
    }
    let times = &outcome["times"];
    let grace_ends = number(&times["delete_after"]) + number(&times["grace_period"]);
    let request = number(&times["request"]);
    let answered = |name| number(&lane(outcome, name)["answered"]);
    let proxy_ended = |name| number(&lane(outcome, name)["proxy_ended"]);
    assert!(answered("no_hook") < request, "cut before its time");
    assert!(answered("laststream") >= request && answered("retries") > answered("laststream"));
    for name in ["laststream", "native_sidecar"] {
        assert!(proxy_ended(name) >= answered(name) && proxy_ended(name) < grace_ends, "{name}");
    }
    assert!(proxy_ended("exit_on_zero") >= grace_ends && proxy_ended("netstat") >= grace_ends);
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
    for part in ["only laststream", " s, lost", "twice", "s, SIGKILL", "one idle connection held"] {
        assert!(page.contains(part), "{part} is not in {page}");
    }
    for foreign in ["<script", "http://", "https://"] {
        assert!(!page.contains(foreign), "the page needs nothing else: {page}");
    }
}

/// An Envoy whose gate does not tell the agent: the proxy then stays for the agent's fixed time.
#[test]
fn a_lane_with_an_unexpected_result_is_reported() -> Outcome {
    let place = Place::new();
    let real = find_or_get(&Wanted::version(NEWEST), &Silent).unwrap().binary;
    let script = place.path().join("envoy");
    let text = format!(
        "for file; do case $file in */laststream-0.json) sed -i 's/drain_agent/nothing/' \
         \"$file\";; esac; done\nexec {} \"$@\"",
        real.display()
    );
    write_script(&script, &text)?;
    run(place.demo(&["--quick"]).env("LASTSTREAM_ENVOY", &script))?
        .expect(1)?
        .stdout_contains("stopped by")?
        .hides("only laststream")?
        // Colours are for terminals, and standard output is none here.
        .hides("\u{1b}")?
        .stderr_contains(
            "not as expected: laststream: expected the proxy to be ended by its agent, at once at \
             SIGTERM, but it was ended by its agent, a fixed time after SIGTERM",
        )?;
    Ok(())
}
