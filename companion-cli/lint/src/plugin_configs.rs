//! Configurations of laststream that are written as YAML: in WasmPlugins, and in Envoy Gateway's
//! policies. The module gets them as JSON.

use super::inputs::Inputs;
use super::node::Node;
use super::objects::of_kind;
use super::value::value_of;

/// Each configuration, with the JSON that the module gets.
pub(super) fn plugin_configs(inputs: &Inputs) -> impl Iterator<Item = (Node<'_>, String)> {
    let plugins = of_kind(inputs, "WasmPlugin")
        .filter_map(|plugin| plugin.spec())
        .filter(|spec| names_us(*spec, "url"));
    let wasm = of_kind(inputs, "EnvoyExtensionPolicy")
        .flat_map(|policy| policy.node.list("spec.wasm"))
        .filter(|wasm| {
            let is_known = names_us(*wasm, "name") || names_us(*wasm, "code.image.url");
            is_known || wasm.get("config").is_some_and(|own| own.get("forwarded_proto").is_some())
        });
    plugins
        .filter_map(|spec| spec.get("pluginConfig"))
        .chain(wasm.filter_map(|wasm| wasm.get("config")))
        .filter_map(|config| {
            let json = value_of(config, LARGEST_CONFIG, DEEPEST_CONFIG)?;
            Some((config, json.to_string()))
        })
}

fn names_us(node: Node<'_>, path: &str) -> bool {
    node.text_of(path).is_some_and(|text| text.contains("laststream"))
}

/// The most values of a configuration that is read, with aliases expanded.
const LARGEST_CONFIG: usize = 10_000;

/// The greatest depth of a configuration that is read; no valid one is deeper.
const DEEPEST_CONFIG: u16 = 32;
