//! The fields of the Wasm filter: LS307. The names are from Envoy 1.40
//! (envoy/extensions/wasm/v3/wasm.proto and what it uses).

use crate::finding::Findings;
use crate::inputs::Inputs;
use crate::modules::modules;
use crate::rules::fields::{self, Maps, unknown_below};

/// The maps of a filter that are checked.
const MAPS: Maps = &[
    (
        "",
        "`config`",
        "name root_id vm_config configuration fail_open failure_policy reload_config \
            capability_restriction_config allow_on_headers_stop_iteration",
    ),
    ("reload_config", "`reload_config`", "backoff"),
    (
        "vm_config",
        "`vm_config`",
        "vm_id runtime code configuration allow_precompiled nack_on_code_cache_miss \
            environment_variables capability_restriction_config",
    ),
    ("vm_config.environment_variables", "`environment_variables`", "host_env_keys key_values"),
    ("vm_config.code", "`code`", "local remote"),
    (
        "vm_config.code.local",
        "`local`",
        "filename inline_bytes inline_string environment_variable watched_directory",
    ),
    ("vm_config.code.remote", "`remote`", "http_uri sha256 retry_policy"),
    ("vm_config.code.remote.http_uri", "`http_uri`", "uri cluster timeout"),
];

pub(super) fn unknown<'g>(inputs: &'g Inputs, findings: &mut Findings<'g>) {
    for module in modules(inputs) {
        let beside = |key: &str| Some(format!("a Wasm filter has no field `{key}`"));
        // Not in a TypedStruct, which has the filter in its `value`.
        if module.typed.field("config") == Some(module.plugin) {
            fields::unknown(module.typed, "@type config", findings, beside);
        }
        unknown_below(module.plugin, MAPS, findings);
    }
}
