//! Wasm plugins of Istio's API, and configurations of laststream that are written as YAML: in those
//! plugins, and in Envoy Gateway's policies. The module gets them as JSON.

use manifest_lint::{Inputs, Node, Object, Texts, of_kind, value_of};

pub(super) struct WasmPlugin<'g> {
    /// The WasmPlugin or TrafficExtension.
    pub(super) object: Object<'g>,
    /// The fields of the plugin, which are the same in both kinds.
    pub(super) wasm: Node<'g>,
}

pub(super) fn wasm_plugins(texts: &Texts) -> impl Iterator<Item = WasmPlugin<'_>> {
    let plugins = of_kind(texts, "WasmPlugin")
        .filter_map(|object| Some(WasmPlugin { object, wasm: object.spec()? }));
    let extensions = of_kind(texts, "TrafficExtension")
        .filter_map(|object| Some(WasmPlugin { object, wasm: object.spec()?.get("wasm")? }));
    plugins.chain(extensions)
}

/// Each configuration, with the JSON that the module gets.
pub(super) fn plugin_configs(inputs: &Inputs) -> impl Iterator<Item = (Node<'_>, String)> {
    let plugins =
        wasm_plugins(inputs).map(|plugin| plugin.wasm).filter(|wasm| names_us(*wasm, "url"));
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
