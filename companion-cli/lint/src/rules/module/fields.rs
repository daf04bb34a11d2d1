//! The fields of the Wasm filter: LS307, LS308. The names are from Envoy 1.40
//! (envoy/extensions/wasm/v3/wasm.proto and what it uses).

use crate::finding::Findings;
use crate::inputs::Inputs;
use crate::modules::modules;
use crate::rules::fields;

/// The maps of a filter that are checked: the path below the plugin, and the fields there.
const MAPS: [(&str, &str); 8] = [
    (
        "",
        "name root_id vm_config configuration fail_open failure_policy reload_config \
            capability_restriction_config allow_on_headers_stop_iteration",
    ),
    ("reload_config", "backoff"),
    (
        "vm_config",
        "vm_id runtime code configuration allow_precompiled nack_on_code_cache_miss \
            environment_variables capability_restriction_config",
    ),
    ("vm_config.environment_variables", "host_env_keys key_values"),
    ("vm_config.code", "local remote"),
    (
        "vm_config.code.local",
        "filename inline_bytes inline_string environment_variable watched_directory",
    ),
    ("vm_config.code.remote", "http_uri sha256 retry_policy"),
    ("vm_config.code.remote.http_uri", "uri cluster timeout"),
];

pub(super) fn unknown<'g>(inputs: &'g Inputs, findings: &mut Findings<'g>) {
    for (module, (path, known)) in modules(inputs).flat_map(|module| MAPS.map(|map| (module, map)))
    {
        let map = if path.is_empty() { Some(module.plugin) } else { module.plugin.fields(path) };
        let Some(map) = map else { continue };
        let name = path.rsplit('.').next().filter(|name| !name.is_empty()).unwrap_or("config");
        let words = |key: &str| Some(format!("`{name}` has no field `{key}`"));
        fields::unknown(map, known, findings, words);
    }
}

pub(super) fn moved<'g>(inputs: &'g Inputs, findings: &mut Findings<'g>) {
    let restrictions =
        modules(inputs).filter_map(|module| module.plugin.field("capability_restriction_config"));
    restrictions.for_each(|node| findings.at(node, "Envoy 1.40 wants it in `vm_config`"));
}
