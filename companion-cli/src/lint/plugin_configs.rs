//! Configurations of laststream that are written as YAML: in WasmPlugins, and in Envoy Gateway's
//! policies. The module gets them as JSON.

use serde_json::Value;

use super::inputs::Inputs;
use super::node::Node;
use super::objects::of_kind;
use super::plain::Meaning;

/// Each of them, with the JSON that the module gets.
pub(super) fn plugin_configs(inputs: &Inputs) -> impl Iterator<Item = (Node<'_>, String)> {
    let plugins = of_kind(inputs, "WasmPlugin")
        .filter_map(|plugin| plugin.spec())
        .filter(|spec| names_us(*spec, "url"));
    let wasm = of_kind(inputs, "EnvoyExtensionPolicy")
        .flat_map(|policy| policy.node.list("spec.wasm"))
        .filter(|wasm| names_us(*wasm, "name") || names_us(*wasm, "code.image.url"));
    plugins
        .filter_map(|spec| spec.get("pluginConfig"))
        .chain(wasm.filter_map(|wasm| wasm.get("config")))
        .filter_map(|config| {
            let json = json_of(config, DEEPEST_CONFIG, &mut LARGEST_CONFIG.clone())?;
            Some((config, json.to_string()))
        })
}

fn names_us(node: Node<'_>, path: &str) -> bool {
    node.text_of(path).is_some_and(|text| text.contains("laststream"))
}

/// How many values a configuration may have, with aliases written out.
const LARGEST_CONFIG: usize = 10_000;

/// As deep as the module reads.
const DEEPEST_CONFIG: u8 = 32;

/// A node as JSON, the way Kubernetes reads it.
fn json_of(node: Node<'_>, depth: u8, left: &mut usize) -> Option<Value> {
    *left = left.checked_sub(1)?;
    let depth = depth.checked_sub(1)?;
    if node.is_map() {
        let members =
            node.entries().map(|(key, value)| Some((key.to_owned(), json_of(value, depth, left)?)));
        return members.collect::<Option<serde_json::Map<_, _>>>().map(Value::Object);
    }
    if node.is_list() {
        return node
            .items()
            .map(|item| json_of(item, depth, left))
            .collect::<Option<_>>()
            .map(Value::Array);
    }
    let text = node.text()?;
    Some(match node.meaning()? {
        Meaning::Null => Value::Null,
        Meaning::Bool(value) => Value::Bool(value),
        Meaning::Number => node.number().map_or_else(|| Value::from(text), Value::from),
        Meaning::Text => Value::from(text),
    })
}
