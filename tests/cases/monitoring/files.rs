//! The files of envoyfilter-manifests/monitoring, checked with promtool and with Grafana's types.

use std::path::{Path, PathBuf};

use laststream_filter::config::wire::Scope;
use laststream_filter::forwarded::Verdict;
use laststream_filter::metrics;
use strum::VariantArray as _;

use crate::lab::envoyless_cases;
use kit::command::{CommandOutput, run};
use kit::prelude::*;
use kit::process::guarded;
use kit::programs::program;
use kit::user::User;

envoyless_cases! {
    promtool_accepts_the_files,
    promtool_tests_the_rules,
    both_forms_have_the_same_rules,
    the_rules_name_every_metric_of_the_scheme,
    the_dashboard_is_of_grafanas_type,
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

/// Tests the default durations, because the case on real Envoys shortens them.
fn promtool_tests_the_rules() -> Outcome {
    const TESTS: &str = include_str!("rules_test.yaml");
    let user = User::new()?;
    user.file("prometheus-rules.yaml", read("prometheus-rules.yaml")?)?;
    let test = |text: &str| promtool(&["test", "rules"], &user.file("tests.yaml", text)?);
    test(TESTS)?.expect(0)?.stdout_contains("SUCCESS")?;
    test(&TESTS.replace("eval_time: 2m", "eval_time: 1m"))?.expect(1)?;
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
