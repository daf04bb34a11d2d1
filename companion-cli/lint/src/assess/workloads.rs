//! The rows of objects that make pods.

use std::collections::{BTreeMap, HashMap};

use laststream_assess::{
    Hook as Taken, Job, Manager, Proxy, ProxyKind, Row, Stop, Workload as Name,
};
use laststream_base::time_span::milliseconds;

use super::kinds::kind_of;
use super::mesh::Mesh;
use super::nearness;
use super::settings::Settings;
use crate::live::{ClusterObject, Live, Workload};
use manifest_lint::{Hook, Inputs, Node, Pod, SplitPods, metadata_patches, pods};

/// The rows, and the number of workloads without a proxy in each namespace.
pub(super) fn rows<'g>(
    inputs: &'g Inputs,
    mesh: &Mesh<'g>,
) -> (Vec<Row>, BTreeMap<Option<String>, usize>) {
    let split = SplitPods::of(inputs);
    let live: HashMap<&ClusterObject, &Workload> =
        Live::workloads(inputs).map(|workload| (&workload.object, workload)).collect();
    let (mut rows, mut without_proxy) = (Vec::new(), BTreeMap::new());
    for pod in pods(inputs).chain(metadata_patches(inputs)).filter(|pod| !pod.is_overlay()) {
        let mut parts = split.with_others(pod);
        parts.retain(|part| is_of(&split, *part, pod));
        if !is_whole(pod) && parts.iter().any(|part| is_whole(*part)) {
            continue; // a part of that whole one
        }
        parts.sort_by_key(|part| is_whole(*part)); // patches take precedence
        let Some((kind, container)) = kind_of(mesh, &parts) else {
            if is_whole(pod) {
                *without_proxy.entry(pod.namespace().map(str::to_owned)).or_default() += 1;
            }
            continue;
        };
        let mut settings = Settings::of_pod(mesh, parts[0].template, &parts, container);
        settings.is_whole = parts.iter().any(|part| is_whole(*part));
        settings.job = job(pod);
        if kind == ProxyKind::AmbientApp {
            let mut hooks =
                parts.iter().flat_map(|it| it.spec.all("containers[].lifecycle.preStop"));
            settings.hook = hooks.next();
        }
        let proxy = with_manager(settings.proxy(kind, mesh), &settings, &parts);
        let running = inputs.source(pod.template.tree).and_then(|it| live.get(it.object.as_ref()?));
        rows.push(row(inputs, pod.object.node, proxy, running.copied()));
    }
    (rows, without_proxy)
}

/// Whether a patch is one of this object: no other object of its kind and name is nearer.
fn is_of<'g>(split: &SplitPods<'g>, patch: Pod<'g>, pod: Pod<'g>) -> bool {
    let own = nearness(patch.template, pod.template);
    let mut others = split.of_object(patch.object).filter(|other| is_whole(*other));
    !is_whole(pod) || others.all(|other| nearness(patch.template, other.template) <= own)
}

/// Whether the object is no patch of another one. Jobs have no selector, and must say when they are
/// started again.
fn is_whole(pod: Pod<'_>) -> bool {
    pod.is_whole() || pod.is_job() && pod.spec.get("restartPolicy").is_some()
}

/// A pod that Envoy Gateway has made has its drain time in the stop hook of its shutdown manager,
/// and in Envoy's container the hook that asks the manager.
fn with_manager(proxy: Proxy, settings: &Settings<'_>, parts: &[Pod<'_>]) -> Proxy {
    if proxy.kind != ProxyKind::EnvoyGateway {
        return proxy;
    }
    let asks_manager = settings.hook.is_some_and(|hook| {
        hook.text_of("httpGet.path").is_some_and(|path| path.starts_with("/shutdown"))
    });
    let mut containers = parts.iter().flat_map(|part| part.spec.list("containers"));
    let manager = containers.find(|it| it.text_of("name") == Some("shutdown-manager"));
    let hook = manager.and_then(|manager| manager.fields("lifecycle.preStop"));
    let usual = Manager::default();
    let manager = hook.map_or(usual, |node| {
        let time = |name| Hook { node }.option(name).map(milliseconds);
        Manager {
            timeout: time("--drain-timeout").unwrap_or(usual.timeout),
            least: time("--min-drain-duration").flatten().unwrap_or(usual.least),
            is_assumed: false,
        }
    });
    Proxy { manager, hook: if asks_manager { Taken::None } else { proxy.hook }, ..proxy }
}

/// How the proxy of a Job ends, by the words of the Job's own containers.
fn job(pod: Pod<'_>) -> Job {
    if !pod.is_job() {
        return Job::No;
    }
    let words: Vec<&str> =
        pod.spec.all("containers[].command[]|args[]").filter_map(Node::text).collect();
    let runs_exec = words.iter().any(|word| word.contains("laststream")) && words.contains(&"exec");
    let ends = runs_exec || words.iter().any(|word| word.contains("quitquitquit"));
    if ends { Job::Ended } else { Job::Unended }
}

/// The row of the object at this node.
pub(super) fn row(
    inputs: &Inputs,
    node: Node<'_>,
    proxy: Proxy,
    running: Option<&Workload>,
) -> Row {
    let source = inputs.source(node.tree);
    let object = source.and_then(|source| source.object.as_ref());
    let graces = running.into_iter().flat_map(|running| &running.pods);
    let shortest = graces.map(|pod| pod.settings.grace).min();
    let proxy = Proxy { grace: shortest.or(proxy.grace), ..proxy };
    let workload = match object {
        Some(ClusterObject { kind, namespace, name, .. }) => {
            Name { kind: kind.clone(), namespace: namespace.clone(), name: name.clone() }
        }
        None => Name {
            kind: node.text_of("kind").unwrap_or_default().to_owned(),
            namespace: node.text_of("metadata.namespace").map(str::to_owned),
            name: node.text_of("metadata.name").unwrap_or_default().to_owned(),
        },
    };
    Row {
        workload,
        place: source
            .filter(|_| object.is_none())
            .map(|source| (source.name.clone(), node.position().line)),
        pods: running.map(|running| running.pods.len()),
        grace: proxy.grace,
        proxy: proxy.kind,
        is_job: proxy.job != Job::No,
        stop: Stop::of(&proxy),
    }
}
