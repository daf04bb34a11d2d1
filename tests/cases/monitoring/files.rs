//! The files of envoyfilter-manifests/monitoring, checked with promtool and with Grafana's types.

use std::path::{Path, PathBuf};

use laststream_filter::config::wire::Scope;
use laststream_filter::forwarded::Verdict;
use laststream_filter::metrics;
use strum::VariantArray as _;

use crate::lab::{EnvoylessCase, envoyless};
use kit::command::{CommandOutput, run};
use kit::prelude::*;
use kit::process::guarded;
use kit::programs::program;
use kit::user::User;

pub(super) fn cases() -> Vec<EnvoylessCase> {
    vec![
        envoyless!(promtool_accepts_the_files),
        envoyless!(promtool_tests_the_rules),
        envoyless!(both_forms_have_the_same_rules),
        envoyless!(the_rules_name_every_metric_of_the_scheme),
        envoyless!(the_dashboard_is_of_grafanas_type),
    ]
}

/// The text of a file of envoyfilter-manifests/monitoring.
pub(super) fn read(file: &str) -> Outcome<String> {
    Ok(std::fs::read_to_string(folder().join(file))?)
}

pub(super) fn yaml(file: &str) -> Outcome<Value> {
    serde_saphyr::from_str(&read(file)?).with_context(|| file.to_owned())
}

/// The panels of the dashboard.
pub(super) fn panels() -> Outcome<Vec<Value>> {
    let dashboard = yaml("grafana-dashboard.json")?;
    Ok(dashboard["panels"].as_array().context("panels")?.clone())
}

fn folder() -> PathBuf {
    kit::workspace().join("envoyfilter-manifests/monitoring")
}

fn promtool(arguments: &[&str], file: &Path) -> Outcome<CommandOutput> {
    run(guarded(program("promtool")?).args(arguments).arg(file))
}

fn promtool_accepts_the_files() -> Outcome {
    let rules = folder().join("prometheus-rules.yaml");
    promtool(&["check", "rules"], &rules)?.expect(0)?.stdout_contains("SUCCESS")?;
    let user = User::new()?;
    user.file("prometheus-rules.yaml", read("prometheus-rules.yaml")?)?;
    for file in ["prometheus.yaml", "prometheus.static.yaml"] {
        // Debian's build has no discovery in Kubernetes, so that part is replaced before the check.
        let mut config = yaml(file)?;
        let job = config["scrape_configs"][0].as_object_mut().context("a job")?;
        if job.remove("kubernetes_sd_configs").is_some() {
            job.insert("static_configs".into(), json!([{"targets": ["10.0.0.7:9901"]}]));
        }
        let checked = user.file("checked.yaml", config.to_string())?;
        promtool(&["check", "config"], &checked)?.expect(0)?.stdout_contains("SUCCESS")?;
        let broken = config.to_string().replace("source_labels", "source_lables");
        let checked = user.file("checked.yaml", broken)?;
        promtool(&["check", "config"], &checked)?.expect(1)?;
    }
    Ok(())
}

/// A series in promtool's notation, with samples a minute apart.
fn series(name: &str, labels: &str, samples: &str) -> Value {
    let labels = format!("job=\"laststream\", instance=\"a\", {labels}");
    json!({"series": format!("{name}{{{labels}}}"), "values": samples})
}

const POD: &str = "namespace=\"shop\", pod=\"p\", workload=\"w\"";

fn alert(name: &str, at: &str, fires: bool) -> Value {
    // promtool's own alert test compares labels and annotations, too. This test asks only whether
    // the alert fires, so it reads the series that Prometheus keeps for alerts.
    let expr = format!("count(ALERTS{{alertname=\"{name}\", alertstate=\"firing\"}}) or vector(0)");
    json!({
        "expr": expr, "eval_time": at,
        "exp_samples": [{"labels": "{}", "value": u64::from(fires)}],
    })
}

fn test(input: Vec<Value>, asked: Vec<Value>) -> Value {
    json!({"interval": "1m", "input_series": input, "promql_expr_test": asked})
}

fn up(samples: &str) -> Value {
    series("up", &format!("gate=\"expected\", {POD}"), samples)
}

/// A drain that is near its deadline from the second minute on.
fn near_the_deadline(seconds: &str, deadline: &str) -> Value {
    test(
        vec![
            up("1x3"),
            series("laststream_gate_state", POD, "1x3"),
            series("laststream_gate_drain_seconds", POD, seconds),
            series("laststream_gate_deadline_seconds", POD, deadline),
        ],
        vec![
            alert("LaststreamDrainNearDeadline", "1m", false),
            alert("LaststreamDrainNearDeadline", "2m", true),
        ],
    )
}

fn tests_of_drains() -> Vec<Value> {
    vec![
        // A drain of 100 s at 81 s; then the proxy does not answer, and its last samples stay.
        test(
            vec![
                up("1 1 1 0 0 0"),
                series("laststream_gate_state", POD, "0 1 1 1 1 1"),
                series("laststream_gate_drain_seconds", POD, "0 80 81 81 81 81"),
                series("laststream_gate_deadline_seconds", POD, "100x5"),
            ],
            vec![
                alert("LaststreamDrainNearDeadline", "1m", false),
                alert("LaststreamDrainNearDeadline", "2m", true),
                // The alert lasts longer than Alertmanager's grouping.
                alert("LaststreamDrainNearDeadline", "3m", true),
                alert("LaststreamDrainNearDeadline", "5m", false),
            ],
        ),
        // A drain of the default deadline is scraped at least once in the last 10 s of it; with a
        // short one, the alert fires after half of it, because most drains end before.
        near_the_deadline("12 12 14 14", "23x3"),
        near_the_deadline("5 5 7 7", "12x3"),
        // The pod is gone a minute after its drain expired; the alert stays for the window.
        test(
            vec![
                up("1 1 1 _ _ _ _ _ _ _ _ _ _ _ _ _"),
                series("laststream_gate_expired_total", POD, "0 0 1 _ _ _ _ _ _ _ _ _ _ _ _ _"),
                series("laststream_gate_state", POD, "0x2"),
            ],
            vec![
                alert("LaststreamDrainExpired", "1m", false),
                alert("LaststreamDrainExpired", "2m", true),
                alert("LaststreamDrainExpired", "9m", true),
                alert("LaststreamDrainExpired", "14m", false),
            ],
        ),
    ]
}

fn tests_of_gates() -> Vec<Value> {
    vec![
        // A state that changes every minute is still not exact.
        test(
            vec![
                up("1x20"),
                series("laststream_gate_state", POD, "0x20"),
                series("laststream_gate_count_partial", POD, "0 1 0 1 0 1 0 1 0 0 0"),
                series("laststream_gate_count_unknown", POD, "0 0 1 0 1 0 1 0 1 0 0"),
                series("laststream_gate_count_exact", POD, "1 0 0 0 0 0 0 0 0 1 1"),
            ],
            vec![
                alert("LaststreamCountNotExact", "5m", false),
                alert("LaststreamCountNotExact", "7m", true),
                alert("LaststreamCountNotExact", "9m", false),
            ],
        ),
        test(
            vec![up("1x10 0x10")],
            vec![
                alert("LaststreamGateAbsent", "4m", false),
                alert("LaststreamGateAbsent", "6m", true),
                alert("LaststreamGateAbsent", "12m", false),
            ],
        ),
    ]
}

/// Tests the default durations, because the case on real Envoys shortens them.
fn promtool_tests_the_rules() -> Outcome {
    let user = User::new()?;
    user.file("prometheus-rules.yaml", read("prometheus-rules.yaml")?)?;
    let tests = [tests_of_drains(), tests_of_gates()].concat();
    let document = json!({
        "rule_files": ["prometheus-rules.yaml"], "evaluation_interval": "1m", "tests": tests,
    });
    let file = user.file("tests.yaml", document.to_string())?;
    promtool(&["test", "rules"], &file)?.expect(0)?.stdout_contains("SUCCESS")?;
    let wrong = document.to_string().replace("\"2m\"", "\"1m\"");
    let file = user.file("tests.yaml", wrong)?;
    promtool(&["test", "rules"], &file)?.expect(1)?;
    Ok(())
}

fn both_forms_have_the_same_rules() -> Outcome {
    let (object, plain) = (yaml("prometheusrule.yaml")?, yaml("prometheus-rules.yaml")?);
    ensure_eq!(object["spec"], plain, "the rules");
    ensure!(plain["groups"][0]["rules"].as_array().is_some_and(|rules| rules.len() > 20));
    let (monitor, config) = (yaml("podmonitor.yaml")?, yaml("prometheus.yaml")?);
    let of_operator = monitor["spec"]["podMetricsEndpoints"][0]["relabelings"].as_array();
    let job = config["scrape_configs"][0]["relabel_configs"].as_array();
    let (of_operator, of_prometheus) = of_operator.zip(job).context("relabelings")?;
    let snake = |rule: &Value| {
        rule.to_string()
            .replace("sourceLabels", "source_labels")
            .replace("targetLabel", "target_label")
    };
    let of_operator: Vec<String> = of_operator.iter().map(snake).collect();
    let of_prometheus: Vec<String> = of_prometheus.iter().map(Value::to_string).collect();
    ensure!(of_prometheus.ends_with(&of_operator), "{of_prometheus:?}\n{of_operator:?}");
    Ok(())
}

/// Prometheus cannot make labels of names under `rate`, so each metric has a separate rule.
fn the_rules_name_every_metric_of_the_scheme() -> Outcome {
    let rules = read("prometheus-rules.yaml")?;
    for scope in Scope::VARIANTS {
        for verdict in Verdict::ALL {
            let metric = metrics::forwarded_proto(verdict, *scope);
            ensure!(rules.contains(&format!("rate({metric}{{")), "the rules lack {metric}");
        }
    }
    Ok(())
}

/// Checks the dashboard with Grafana's own types for TypeScript: no field is unknown or of another
/// type. These types accept any object as the options of a panel.
fn the_dashboard_is_of_grafanas_type() -> Outcome {
    let user = User::new()?;
    let dashboard = yaml("grafana-dashboard.json")?;
    let tsc = program("tsc-with-grafana")?;
    let modules = tsc.ancestors().nth(2).context("a folder")?.join("node_modules");
    std::os::unix::fs::symlink(modules, user.path("node_modules"))?;
    let check = |text: String| {
        let text = format!(
            "import type {{ Dashboard }} from \"@grafana/schema\";\n\
             export const dashboard: Dashboard = {text};\n"
        );
        let file = user.file("check.ts", text)?;
        let options = ["--noEmit", "--strict", "--skipLibCheck", "--module", "esnext"];
        let mut command = guarded(&tsc);
        command.args(options).args(["--moduleResolution", "bundler"]).arg(file);
        run(&mut command)
    };
    check(dashboard.to_string())?.expect(0)?;
    let unknown = dashboard.to_string().replace("\"gridPos\"", "\"gridPosition\"");
    check(unknown)?.expect(2)?.stdout_contains("gridPosition")?;
    let wrong = dashboard.to_string().replace("\"editable\":true", "\"editable\":\"yes\"");
    check(wrong)?.expect(2)?.stdout_contains("not assignable")?;
    Ok(())
}
