//! A Job beside a sidecar: the command waits for the proxy, and ends it when the last outbound
//! stream is out.

use super::{File, object, other, proxy_config};
use crate::policy::file::{Job, Placement};
use crate::policy::{Policy, PolicyProblem};
use crate::yaml::{List, Map};

/// Where the program is put for the Job's container, whose image need not know of it. No image has
/// it there itself.
const FOLDER: &str = "/opt/laststream";
const VOLUME: &str = "laststream";
const GATE: u16 = 15091;

pub(super) fn render(policy: &Policy) -> Result<File, PolicyProblem> {
    let Some(job) = &policy.job else {
        return Err(PolicyProblem::new(
            "job",
            "is required for a Job: write `job: {container: NAME, command: [...], program_image: \
                IMAGE}`",
        ));
    };
    let Placement::Sidecar(sidecar) = &policy.placement else {
        return Err(PolicyProblem::new(
            "placement",
            "a Job has a sidecar, or needs no wrapper: write `placement: {sidecar: {}}`",
        ));
    };
    let name = job.name.as_deref().unwrap_or(&policy.name);
    // Jobs are short: while a counter is young, only Envoy's own count can show that no stream is
    // older.
    let metadata = proxy_config::annotations(policy)
        .ok()
        .map(|annotations| Map::of("annotations", annotations));
    let template =
        Map::new().with_some("metadata", metadata).with("spec", pod(policy, job, sidecar.native));
    let template = Map::of("template", template);
    let (kind, spec) = if job.cron {
        ("CronJob", Map::of("jobTemplate", Map::of("spec", template)))
    } else {
        ("Job", template)
    };
    let metadata = Map::of("name", name).with_some("namespace", policy.namespace.as_deref());
    let document = object("batch/v1", kind, metadata, spec);
    Ok(other("job.yaml", &about(kind, name), document))
}

/// The comment at the head of the file.
fn about(kind: &str, name: &str) -> [String; 3] {
    [
        format!(
            "A patch for the {kind} `{name}`: under `patches` of a kustomization. It replaces \
                loops that ask 15020, `pkill`, shared process namespaces and containers that kill \
                the proxy."
        ),
        "The container's own `args`, if it has any, still follow: leave them out of the policy's \
            command."
            .to_owned(),
        "The exit code is the command's own, signals reach it, and nothing is waited for without \
            end: see `laststream exec --help`."
            .to_owned(),
    ]
}

fn pod(policy: &Policy, job: &Job, is_native: bool) -> Map {
    let mount = || List::of(Map::of("name", VOLUME).with("mountPath", FOLDER));
    let program = job.program.as_deref().unwrap_or("/laststream");
    let install = Map::of("name", "laststream")
        .note("Any image with the static program in it.")
        .with("image", job.program_image.as_str())
        .with("command", List::of(program).item("install").item(FOLDER))
        .with("volumeMounts", mount());
    let container = Map::of("name", job.container.as_str())
        .with("command", command(policy, job, is_native))
        .with("volumeMounts", mount());
    Map::of("initContainers", List::of(install))
        .with("containers", List::of(container))
        .with("volumes", List::of(Map::of("name", VOLUME).with("emptyDir", Map::new())))
}

fn command(policy: &Policy, job: &Job, is_native: bool) -> List {
    let mut command = List::of(format!("{FOLDER}/laststream")).item("exec");
    if let Some(port) = policy.gate_port.filter(|port| *port != GATE) {
        command = command.item(format!("--gate=http://127.0.0.1:{port}"));
    }
    if is_native {
        command =
            command.note("Kubernetes ends a native sidecar by itself.").item("--end-proxy=never");
    }
    command = command.note("Behind this, the container's own command.").item("--");
    job.command.iter().fold(command, |command, word| command.item(word.as_str()))
}
