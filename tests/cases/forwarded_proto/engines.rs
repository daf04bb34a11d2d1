//! The native engines of a listener: the parts that are rendered from a policy for Envoy's own
//! matchers, in match_delegate or in the composite filter.

use laststream_local::envoy::Version;
use laststream_policy::file::Engine;
use laststream_policy::{Overrides, Policy};
use laststream_render::{Kind, render};
use serde_json::{Map, Value, json};

use kit::forwarded_proto::listeners::Form;
use kit::prelude::*;

/// The kind of manifest that the rendered parts are taken from.
#[derive(Clone, Copy, Debug)]
pub(super) enum Place {
    /// An EnvoyFilter for a gateway, right for all listeners.
    Gateway,
    /// An EnvoyFilter for a sidecar.
    Sidecar,
    /// Envoy Gateway's patches, right for listeners without TLS.
    Patches,
    /// A bootstrap, right for an edge without TLS.
    Bootstrap,
}

/// The first Envoy whose composite filter has a matcher of its own.
pub(in crate::cases) const FIRST_WITH_COMPOSITE: Version = Version::new(1, 39, 0);

/// The form for Envoy's own matchers, or the text of the refusal.
pub(super) fn native(
    configuration: &str,
    engine: Engine,
    place: Place,
) -> Outcome<Result<Form, String>> {
    let configuration: Value = serde_json::from_str(configuration).context("the configuration")?;
    const REMOTE: &str = "https://test/plugin.wasm";
    let (placement, module, kind) = match place {
        Place::Gateway => (json!({ "gateway": {} }), REMOTE, Kind::EnvoyFilter),
        Place::Sidecar => (json!({ "sidecar": {} }), REMOTE, Kind::EnvoyFilter),
        Place::Patches => {
            (json!({ "envoy_gateway": { "gateway": "g" } }), REMOTE, Kind::EnvoyGateway)
        }
        Place::Bootstrap => (json!({ "envoy": {} }), "/plugin.wasm", Kind::Envoy),
    };
    let mut policy = json!({ "namespace": "test", "placement": placement, "module": module });
    policy["engine"] = if engine == Engine::Composite { "composite" } else { "native" }.into();
    policy["forwarded_proto"] = configuration["forwarded_proto"].clone();
    if module == REMOTE {
        policy["digest"] = format!("sha256:{}", "a".repeat(64)).into();
    }
    let policy = Policy::read(policy.to_string().as_bytes(), &Overrides::default())?;
    let rendered = match render(kind, &policy, &|_, _| Err("no module is read".into())) {
        Ok(rendered) => rendered,
        Err(refused) => return Ok(Err(refused.to_string())),
    };
    let text = &rendered.files.first().context("nothing was rendered")?.text;
    let documents: Vec<Value> = serde_saphyr::from_multiple(text).with_context(|| text.clone())?;
    let document = documents.last().context("no document")?;
    let form = match place {
        Place::Gateway | Place::Sidecar => {
            of_patches(document["spec"]["configPatches"].as_array().context("no patches")?)?
        }
        Place::Patches => {
            of_json_patches(document["spec"]["jsonPatches"].as_array().context("no patches")?)?
        }
        Place::Bootstrap => {
            let listener = &document["static_resources"]["listeners"][0];
            let mut form = of_manager(&listener["filter_chains"][0]["filters"][0]["typed_config"])?;
            form.limited = limited(listener)?;
            form
        }
    };
    ensure!(!form.filters.is_empty() || form.limited.is_some(), "no filter in {text}");
    Ok(Ok(form))
}

/// The filters with matchers, and all early mutations. Each patch inserts its filter first, so the
/// filter of the last patch is first. Patches of the module are left out; on newer proxies others
/// replace them.
fn of_patches(patches: &[Value]) -> Outcome<Form> {
    let has_versions = patches.iter().any(is_for_newer);
    let mut form = Form { early: None, filters: Vec::new(), limited: None };
    for patch in patches {
        let value = &patch["patch"]["value"];
        match patch["applyTo"].as_str() {
            Some("HTTP_FILTER") if value.get("typed_config").is_some() => {
                if is_for_newer(patch) == has_versions {
                    form.filters.insert(0, value.clone());
                }
            }
            Some("NETWORK_FILTER") => {
                let added = mutations(&value["typed_config"]).context("no mutations")?;
                let all = form.early.get_or_insert_with(|| json!([]));
                let all = all.as_array_mut().context("no list")?;
                all.extend(added.as_array().into_iter().flatten().cloned());
            }
            Some(
                "EXTENSION_CONFIG" | "HTTP_FILTER" | "LISTENER" | "ROUTE_CONFIGURATION" | "CLUSTER",
            ) => {}
            other => bail!("a patch for {other:?}"),
        }
    }
    Ok(form)
}

fn is_for_newer(patch: &Value) -> bool {
    patch.pointer("/match/proxy/proxyVersion").is_some()
}

/// Each filter is added in front of those before it.
fn of_json_patches(patches: &[Value]) -> Outcome<Form> {
    let mut form = Form { early: None, filters: Vec::new(), limited: None };
    for patch in patches {
        let (path, value) =
            (patch["operation"]["path"].as_str().unwrap_or_default(), &patch["operation"]["value"]);
        if path.ends_with("/http_filters/0") {
            form.filters.insert(0, value.clone());
        } else if path.ends_with("/early_header_mutation_extensions") {
            form.early = value.pointer("/0/typed_config/mutations").cloned();
        } else {
            ensure!(path == "/request_headers_to_remove", "a patch at {path}");
        }
    }
    Ok(form)
}

fn of_manager(manager: &Value) -> Outcome<Form> {
    let filters = manager["http_filters"].as_array().context("no filters")?;
    let own = |filter: &&Value| {
        filter["name"].as_str().is_some_and(|name| name.starts_with("laststream-"))
    };
    let filters = filters.iter().filter(own).cloned().collect();
    Ok(Form { early: mutations(manager), filters, limited: None })
}

/// The match of the trusted peers' filter chain, and the fields of its connection manager that
/// differ from those of the default filter chain.
fn limited(listener: &Value) -> Outcome<Option<(Value, Map<String, Value>)>> {
    let others = &listener["default_filter_chain"]["filters"][0]["typed_config"];
    if others.is_null() {
        return Ok(None);
    }
    let chain = &listener["filter_chains"][0];
    let manager = chain["filters"][0]["typed_config"].as_object().context("no manager")?;
    let more = manager.iter().filter(|(name, value)| others[name.as_str()] != **value);
    let more = more.map(|(name, value)| (name.clone(), value.clone())).collect();
    Ok(Some((chain["filter_chain_match"].clone(), more)))
}

fn mutations(manager: &Value) -> Option<Value> {
    manager.pointer("/early_header_mutation_extensions/0/typed_config/mutations").cloned()
}
