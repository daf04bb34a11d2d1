//! Parts of Envoy's bootstrap that Istio's agent merges: the variable that names a file, and the
//! file's text, if volumes and mounts lead to it.

use crate::{CONTAINERS, Inputs, Node, Pod, named, near, pods};
use manifest_text::istio::BOOTSTRAP_OVERRIDE;

pub struct BootstrapPart<'g> {
    pub pod: Pod<'g>,
    /// The variable's value.
    pub path: Node<'g>,
    /// The root of the file's text; none if the text is not in the input files. The error says why
    /// the proxy has no such file.
    pub root: Result<Option<Node<'g>>, String>,
}

pub fn bootstraps(inputs: &Inputs) -> impl Iterator<Item = BootstrapPart<'_>> {
    pods(inputs).flat_map(|pod| bootstraps_of(inputs, pod))
}

/// The parts of a pod.
pub fn bootstraps_of<'g>(
    inputs: &'g Inputs,
    pod: Pod<'g>,
) -> impl Iterator<Item = BootstrapPart<'g>> {
    pod.spec.all(CONTAINERS).filter_map(move |container| {
        let path = container.item("env", "name", BOOTSTRAP_OVERRIDE)?.get("value")?;
        Some(BootstrapPart { pod, path, root: file(inputs, pod, container, path.text()?) })
    })
}

/// The text of the file at this path in a container.
fn file<'g>(
    inputs: &'g Inputs,
    pod: Pod<'g>,
    container: Node<'g>,
    path: &str,
) -> Result<Option<Node<'g>>, String> {
    let within = container.list("volumeMounts").filter_map(|mount| {
        let rest = path.strip_prefix(mount.text_of("mountPath")?.trim_end_matches('/'))?;
        let file = match mount.text_of("subPath") {
            Some(file) => rest.is_empty().then_some(file),
            None => rest.strip_prefix('/'),
        };
        Some((mount.text_of("name")?, file?))
    });
    let Some((name, file)) = within.min_by_key(|(_, file)| file.len()) else {
        return Err(format!("no volume is mounted at `{path}`"));
    };
    let Some(volume) = pod.spec.item("volumes", "name", name) else {
        return Err(format!("the pod has no volume `{name}`"));
    };
    if let Some(downward) = volume.get("downwardAPI") {
        return of_annotation(pod, downward, file);
    }
    let Some(map) = volume.get("configMap") else { return Ok(None) };
    let Some(name) = map.text_of("name") else { return Ok(None) };
    of_config_map(inputs, pod, name, key_of(map, file)?)
}

/// The key of a ConfigMap whose text is this file of the volume.
fn key_of<'t>(volume: Node<'t>, file: &'t str) -> Result<&'t str, String> {
    if volume.get("items").is_none() {
        return Ok(file);
    }
    let item = volume.item("items", "path", file);
    let key = item.and_then(|item| item.text_of("key"));
    key.ok_or_else(|| format!("the volume has no file `{file}`"))
}

fn of_annotation<'g>(
    pod: Pod<'g>,
    downward: Node<'g>,
    file: &str,
) -> Result<Option<Node<'g>>, String> {
    let item = downward
        .item("items", "path", file)
        .ok_or_else(|| format!("the volume has no file `{file}`"))?;
    let field = item.text_of("fieldRef.fieldPath");
    let key =
        field.and_then(|field| field.strip_prefix("metadata.annotations['")?.strip_suffix("']"));
    let Some(key) = key else { return Ok(None) };
    match pod.annotation(key) {
        Some(annotation) => Ok(annotation.embedded()),
        None => Err(format!("the pod has no annotation `{key}`")),
    }
}

fn of_config_map<'g>(
    inputs: &'g Inputs,
    pod: Pod<'g>,
    name: &str,
    file: &str,
) -> Result<Option<Node<'g>>, String> {
    let mut maps = named(inputs, "ConfigMap", name);
    let Some(map) = maps.find(|map| near(map.namespace(), pod.namespace())) else {
        return Ok(None);
    };
    let is_binary = map.node.get("binaryData").is_some_and(|data| data.get(file).is_some());
    match map.node.get("data").and_then(|data| data.get(file)) {
        Some(text) => Ok(text.embedded()),
        None if is_binary => Ok(None),
        None => Err(format!("the ConfigMap `{name}` has no file `{file}`")),
    }
}
