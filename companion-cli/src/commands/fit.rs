//! `laststream assess --policy`: whether a cluster would take what a policy is rendered to.

use std::path::Path;

use laststream_fleet::{Cluster, FleetError, Software, Trial, Verdict};
use laststream_gate::text::columns;
use laststream_policy::file::Delivery;
use laststream_policy::{Overrides, Policy};
use laststream_render::{self as render, Kind};
use serde::Serialize;

use crate::args::scan::ScanArgs;
use crate::commands::pods::block_on;
use crate::commands::policy_images::some_digest;
use crate::commands::{Ended, Exit, Printer};
use crate::input::{policy, policy_text};

/// What to write instead of a kind that the cluster does not take.
const INSTEAD: [(&str, &str); 5] = [
    (
        "ConfigMap",
        "an overlay is needed for a grace period, a hook, volumes or variables: leave them out, \
         with `drain: {starts: agent}` and a deadline of at most 25s (docs/install/gateway-api.md)",
    ),
    ("WasmPlugin", "`laststream render envoyfilter` writes the same as an EnvoyFilter"),
    (
        "EnvoyFilter",
        "without one, no gate can be in an Istio gateway or sidecar: docs/without.md says what \
         Istio's own settings do",
    ),
    ("EnvoyExtensionPolicy", "`delivery: program` needs no module (docs/program.md)"),
    (
        "a pod with an image volume",
        "without `delivery: image_volume` Istio's agent fetches the module; for other Envoys there \
         is `delivery: program`",
    ),
];

#[derive(Serialize)]
struct Report {
    #[serde(flatten)]
    software: Software,
    trials: Vec<Trial>,
    /// Files that are no objects, such as values of a chart.
    not_asked: Vec<String>,
}

/// Prints what the cluster says to each object.
pub(super) fn run(file: &Path, scan: &ScanArgs, is_json: bool, printer: &Printer) -> Ended {
    let result = Policy::read(&policy_text(Some(file))?, &Overrides::default());
    let policy = policy(Some(file), "", result, printer)?;
    let files = render::render(Kind::All, &policy, &some_digest)?;
    let (objects, others) = files.objects()?;
    let not_asked = others.into_iter().map(str::to_owned).collect();
    let report = block_on(async {
        let cluster = scan.connect().await?;
        let mut trials = trials(&cluster, &policy, &objects).await?;
        let software = cluster.software().await?;
        let old = software.without_image_volumes();
        if policy.delivery == Delivery::ImageVolume && !old.is_empty() {
            let why = format!("{} has no image volumes, 2.1 has", old.join(" and "));
            let object = "the nodes".to_owned();
            trials.push(Trial { object, verdict: Verdict::Missing { why } });
        }
        Ok::<_, FleetError>(Report { software, trials, not_asked })
    })?;
    match is_json {
        true => printer.value(&report),
        false => print(&report, printer),
    }
    let fits = report.trials.iter().all(|trial| trial.verdict == Verdict::Accepted);
    Ok(if fits { Exit::Fine } else { Exit::Negative })
}

async fn trials(
    cluster: &Cluster,
    policy: &Policy,
    objects: &[serde_json::Value],
) -> Result<Vec<Trial>, FleetError> {
    let mut trials = Vec::new();
    for object in objects {
        trials.push(cluster.try_object(object).await?);
    }
    let namespace = policy.namespace.as_deref().unwrap_or(cluster.namespace());
    if policy.delivery == Delivery::ImageVolume {
        trials.push(cluster.try_image_volume(namespace).await?);
    }
    if let Some(secret) = &policy.file.pull_secret {
        trials.push(cluster.try_secret(namespace, secret).await?);
    }
    Ok(trials)
}

/// A table, and below it the ways out, each once.
fn print(report: &Report, printer: &Printer) {
    let Report { software, trials, not_asked } = report;
    let objects = trials.iter().map(|trial| trial.object.clone()).collect();
    let answers = trials.iter().map(|trial| trial.verdict.words()).collect();
    printer.stdout(&columns(vec![("OBJECT", objects), ("ANSWER", answers)]));
    let negatives = || trials.iter().filter(|trial| trial.verdict.is_negative());
    for (kind, instead) in INSTEAD {
        if negatives().any(|trial| trial.object.starts_with(kind)) {
            printer.stdout(&format!("instead of {kind}: {instead}\n"));
        }
    }
    if !not_asked.is_empty() {
        let files = not_asked.join(", ");
        printer.status_line(&format!("not asked for, because they are no objects: {files}"));
    }
    printer.status_line(&format!(
        "{} of {} are taken; {}",
        trials.iter().filter(|trial| trial.verdict == Verdict::Accepted).count(),
        trials.len(),
        software.words()
    ));
}
