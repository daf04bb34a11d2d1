//! Who restores the scheme in a listener: the module, or what is rendered of the same policy for Envoy's own matchers.

use laststream::policy::{Overrides, Policy};
use laststream::render::{Kind, render};
use serde_json::{Value, json};

use crate::support::failure::{Context as _, Outcome, ensure, fail};

/// What a connection manager needs.
pub(super) struct Form {
    pub(super) early: Option<Value>,
    /// In front of the router.
    pub(super) filters: Vec<Value>,
}

/// Where the rendered parts are taken from.
#[derive(Clone, Copy, Debug)]
pub(super) enum Place {
    /// An EnvoyFilter for a gateway, right for all listeners.
    Gateway,
    /// A bootstrap, right for an edge without TLS.
    Bootstrap,
}

/// The form for Envoy's own matchers; the words of the refusal if there is none.
pub(super) fn native(configuration: &str, place: Place) -> Outcome<Result<Form, String>> {
    let configuration: Value = serde_json::from_str(configuration).context("the configuration")?;
    let (placement, module, kind) = match place {
        Place::Gateway => (json!({ "gateway": {} }), "https://test/plugin.wasm", Kind::EnvoyFilter),
        Place::Bootstrap => (json!({ "envoy": {} }), "/plugin.wasm", Kind::Envoy),
    };
    let mut policy = json!({ "engine": "native", "placement": placement, "module": module });
    policy["forwarded_proto"] = configuration["forwarded_proto"].clone();
    if matches!(place, Place::Gateway) {
        policy["digest"] = format!("sha256:{}", "a".repeat(64)).into();
    }
    let policy = Policy::read(policy.to_string().as_bytes(), &Overrides::default())?;
    let rendered = match render(kind, &policy, &|_| Err("nobody asks".into())) {
        Ok(rendered) => rendered,
        Err(refused) => return Ok(Err(refused.to_string())),
    };
    let text = &rendered.files.first().context("nothing was rendered")?.text;
    let document: Value = serde_saphyr::from_str(text).with_context(|| text.clone())?;
    let form = match place {
        Place::Gateway => of_patches(document["spec"]["configPatches"].as_array().context("no patches")?),
        Place::Bootstrap => of_manager(&document["static_resources"]["listeners"][0]["filter_chains"][0]["filters"][0]["typed_config"]),
    }?;
    ensure!(!form.filters.is_empty(), "no filter in {text}");
    Ok(Ok(form))
}

/// Of filters that are inserted first, the last is first.
fn of_patches(patches: &[Value]) -> Outcome<Form> {
    let mut form = Form { early: None, filters: Vec::new() };
    for patch in patches {
        let value = &patch["patch"]["value"];
        match patch["applyTo"].as_str() {
            Some("HTTP_FILTER") if value.get("typed_config").is_some() => form.filters.insert(0, value.clone()),
            Some("NETWORK_FILTER") => form.early = mutations(&value["typed_config"]),
            Some("EXTENSION_CONFIG" | "HTTP_FILTER" | "LISTENER" | "ROUTE_CONFIGURATION") => {}
            other => fail!("a patch for {other:?}"),
        }
    }
    Ok(form)
}

fn of_manager(manager: &Value) -> Outcome<Form> {
    let filters = manager["http_filters"].as_array().context("no filters")?;
    let own = |filter: &&Value| filter["name"].as_str().is_some_and(|name| name.starts_with("laststream-"));
    Ok(Form { early: mutations(manager), filters: filters.iter().filter(own).cloned().collect() })
}

fn mutations(manager: &Value) -> Option<Value> {
    manager.pointer("/early_header_mutation_extensions/0/typed_config/mutations").cloned()
}
