//! A Job beside a sidecar: the command waits for the proxy, and ends it when the last outbound
//! stream is out.

use super::files::{File, other};
use super::hook::longer_grace;
use super::kind::misplaced;
use super::objects::object;
use super::volume::{JOB_FOLDER, Program};
use super::{placement, proxy_config};
use laststream_base::yaml::{List, Map};
use laststream_policy::file::Job;
use laststream_policy::{Policy, PolicyProblem};

pub(super) fn render(policy: &Policy) -> Result<File, PolicyProblem> {
    let Some(job) = &policy.file.job else {
        return Err(PolicyProblem::new(
            "job",
            "is required for a Job: write `job: {container: NAME, command: [...], program_image: \
                IMAGE}`",
        ));
    };
    let Some(is_native) = placement::facts(policy).native_sidecar else {
        return misplaced(
            "a Job has a sidecar, or needs no wrapper: write `placement: {sidecar: {}}`",
        );
    };
    let name = job.name.as_deref().unwrap_or(&policy.name);
    // Jobs are short: while a counter is young, only Envoy's own count can show that no stream is
    // older.
    let metadata = proxy_config::annotations(policy)
        .ok()
        .map(|annotations| Map::of("annotations", annotations));
    let has_annotations = metadata.is_some();
    let template =
        Map::new().with_some("metadata", metadata).with("spec", pod(policy, job, is_native));
    let template = Map::of("template", template);
    let (kind, spec) = if job.cron {
        ("CronJob", Map::of("jobTemplate", Map::of("spec", template)))
    } else {
        ("Job", template)
    };
    let metadata = Map::of("name", name).with_some("namespace", policy.namespace.as_deref());
    let document = object("batch/v1", kind, metadata, spec);
    Ok(other("job.yaml", &about(kind, name, has_annotations), document))
}

/// The comment at the head of the file.
fn about(kind: &str, name: &str, has_annotations: bool) -> Vec<String> {
    let replaces = has_annotations.then(|| proxy_config::REPLACES.to_owned());
    let about = [
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
    ];
    about.into_iter().chain(replaces).collect()
}

fn pod(policy: &Policy, job: &Job, is_native: bool) -> Map {
    let program = Program::of_job(job);
    let volume = program.volume();
    let container = Map::of("name", job.container.as_str())
        .with("command", command(policy, job, is_native))
        .with("volumeMounts", List::of(volume.mount()));
    longer_grace(policy)
        .with("initContainers", List::of(program.init_container()))
        .with("containers", List::of(container))
        .with("volumes", List::of(volume.item()))
}

fn command(policy: &Policy, job: &Job, is_native: bool) -> List {
    let mut command = List::of(format!("{JOB_FOLDER}/laststream")).item("exec");
    if let Some(port) = policy.gate_port {
        command = command.item(format!("--gate=http://127.0.0.1:{port}"));
    }
    if is_native {
        command =
            command.note("Kubernetes ends a native sidecar by itself.").item("--end-proxy=never");
    }
    command = command.note("Behind this, the container's own command.").item("--");
    job.command.iter().fold(command, |command, word| command.item(word.as_str()))
}
