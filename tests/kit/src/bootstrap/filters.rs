//! HTTP filters: the Wasm module, the filters in front of it, and filters whose configuration is
//! discovered.

use std::path::Path;

use serde_json::{Value, json};

use super::extension;
use crate::xds::Xds;

const WASM: &str = "envoy.extensions.filters.http.wasm.v3.Wasm";
const SET_FILTER_STATE: &str = "envoy.extensions.filters.http.set_filter_state.v3.Config";
const HEADER_MUTATION: &str = "envoy.extensions.filters.http.header_mutation.v3.HeaderMutation";
const ROUTER: &str = "envoy.extensions.filters.http.router.v3.Router";

pub fn router() -> Value {
    extension("envoy.filters.http.router", ROUTER, json!({}))
}

/// One Wasm filter. Filters with the same `vm_id`, `vm_configuration` and module share their VMs.
#[derive(Clone)]
pub struct Wasm<'a> {
    pub name: &'a str,
    pub module: &'a Path,
    pub vm_id: &'a str,
    pub vm_configuration: &'a str,
    /// The text for `on_configure`, usually JSON.
    pub configuration: &'a str,
    /// `FAIL_RELOAD`, `FAIL_CLOSED` or `FAIL_OPEN`.
    pub failure_policy: &'a str,
}

impl Wasm<'_> {
    /// The filter for `http_filters`.
    pub fn filter(&self) -> Value {
        extension(self.name, WASM, self.config())
    }

    /// Only its `typed_config`, for [`Xds::replace_filter`].
    pub fn typed_config(&self) -> Value {
        self.filter()["typed_config"].take()
    }

    fn config(&self) -> Value {
        let code = json!({ "local": { "filename": self.module.display().to_string() } });
        let mut plugin = json!({
            "name": self.name,
            "root_id": self.name,
            "failure_policy": self.failure_policy,
            "configuration": string_value(self.configuration),
            "vm_config": { "runtime": "envoy.wasm.runtime.v8", "vm_id": self.vm_id, "code": code },
        });
        if !self.vm_configuration.is_empty() {
            plugin["vm_config"]["configuration"] = string_value(self.vm_configuration);
        }
        if self.failure_policy == "FAIL_RELOAD" {
            plugin["reload_config"] =
                json!({ "backoff": { "base_interval": "0.05s", "max_interval": "0.5s" } });
        }
        json!({ "config": plugin })
    }
}

/// A filter whose configuration comes from the file that [`Xds`] writes under that name.
pub fn discovered(name: &str, xds: &Xds) -> Value {
    let kinds = [WASM, "envoy.extensions.filters.http.rbac.v3.RBAC"]
        .map(|kind| format!("type.googleapis.com/{kind}"));
    json!({
        "name": name,
        "config_discovery": { "config_source": xds.filter_source(name), "type_urls": kinds },
    })
}

/// The key of the peer information, which the module reads.
const PEER_INFO: &str = "laststream.direct_peer";

/// The filter that writes the direct peer for the module.
pub fn direct_peer() -> Value {
    filter_state(PEER_INFO, "%DOWNSTREAM_DIRECT_REMOTE_ADDRESS_WITHOUT_PORT%")
}

/// [`direct_peer`] with the local addresses of the connection.
pub fn peer_info() -> Value {
    let format = "%DOWNSTREAM_DIRECT_REMOTE_ADDRESS_WITHOUT_PORT% %DOWNSTREAM_LOCAL_ADDRESS% \
                  %DOWNSTREAM_DIRECT_LOCAL_ADDRESS%";
    filter_state(PEER_INFO, format)
}

/// A filter that writes a formatted string, which a module reads as the property
/// `filter_state.<key>`.
pub fn filter_state(key: &str, format: &str) -> Value {
    let format = json!({ "text_format_source": { "inline_string": format } });
    let value =
        json!({ "object_key": key, "factory_key": "envoy.string", "format_string": format });
    extension(
        "envoy.filters.http.set_filter_state",
        SET_FILTER_STATE,
        json!({ "on_request_headers": [value] }),
    )
}

/// Native mutations of request headers, as in [`super::Hcm::early_mutations`].
pub fn header_mutation(request_mutations: Value) -> Value {
    extension(
        "envoy.filters.http.header_mutation",
        HEADER_MUTATION,
        json!({ "mutations": { "request_mutations": request_mutations } }),
    )
}

fn string_value(text: &str) -> Value {
    json!({ "@type": "type.googleapis.com/google.protobuf.StringValue", "value": text })
}
