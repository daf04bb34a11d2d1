//! WasmPlugins, and TrafficExtensions, which replace them from Istio 1.30 on: for pull secrets, and
//! for waypoints. They carry the counters; the comments say what else is needed.

use laststream_filter::config::wire::Scope;

use super::envoyfilter::around_the_module;
use super::files::{File, objects};
use super::kind::misplaced;
use super::objects::{metadata, object};
use super::parts::{WHY_CLOSED, WHY_RELOAD};
use super::placement::{self, Facts, Form};
use super::scheme::Scheme;
use laststream_base::versions::Release;
use laststream_base::yaml::{List, Map, Node};
use laststream_policy::file::{FailurePolicy, Show};
use laststream_policy::module_json::{self, scopes};
use laststream_policy::{ModuleLocation, Policy, PolicyProblem};

pub(super) fn render(policy: &Policy, source: &ModuleLocation) -> Result<File, PolicyProblem> {
    let [with_gate, without_gate] = placement::facts(policy).plugin_gate.or_else(misplaced)?;
    if policy.file.websockets.is_some() {
        return Err(PolicyProblem::new(
            "websockets",
            "is not supported by a WasmPlugin, which is on for every route and so costs every \
                request: `render envoyfilter`, or take it out",
        ));
    }
    if policy.file.streams.show != Show::Nothing {
        return Err(PolicyProblem::new(
            "streams.show",
            "is not supported by a WasmPlugin: no gate is beside it to list streams: `render \
                envoyfilter`, or take it out",
        ));
    }
    let scheme = Scheme::only_module(
        policy,
        "a WasmPlugin has its place from Istio, and theirs would be in front of it: `render \
            envoyfilter`",
    )?;
    let scopes = scopes(policy);
    let several = scopes.len() > 1;
    let api = Api::of(policy);
    let mut documents: Vec<Map> = scopes
        .into_iter()
        .map(|(scope, with_proto)| {
            let name =
                if several { format!("{}-{scope}", policy.name) } else { policy.name.clone() };
            let spec = api.spec(policy, source, scope, with_proto);
            object("extensions.istio.io/v1alpha1", api.kind(), metadata(policy, &name), spec)
        })
        .collect();
    let about_gate = if policy.gate_port.is_some() { with_gate } else { without_gate };
    let mut about = vec![about_gate.to_owned(), PLACE.to_owned(), api.note().into()];
    if let Some(filter) = around_the_module(policy, &scheme) {
        about.push(
            "The EnvoyFilter carries what the module needs to know for x-forwarded-proto: \
            without it no peer is trusted."
                .into(),
        );
        documents.push(filter);
    }
    Ok(objects(api.file(), &about, &documents))
}

/// Istio's API for Wasm plugins.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Api {
    WasmPlugin,
    TrafficExtension,
}

impl Api {
    /// The oldest Istio with TrafficExtensions.
    const EXTENSIONS: Release = (1, 30);

    pub(super) fn of(policy: &Policy) -> Self {
        match policy.istio {
            Some(istio) if istio >= Self::EXTENSIONS => Self::TrafficExtension,
            _ => Self::WasmPlugin,
        }
    }

    fn kind(self) -> &'static str {
        match self {
            Self::WasmPlugin => "WasmPlugin",
            Self::TrafficExtension => "TrafficExtension",
        }
    }

    pub(super) fn file(self) -> &'static str {
        match self {
            Self::WasmPlugin => "wasmplugin.yaml",
            Self::TrafficExtension => "trafficextension.yaml",
        }
    }

    fn note(self) -> &'static str {
        match self {
            Self::WasmPlugin => {
                "From 1.30 on, Istio's own API for this is TrafficExtension, and istiod converts \
                    WasmPlugins: write `istio: \"1.30\"` in the policy for that."
            }
            Self::TrafficExtension => {
                "Needs Istio 1.30. A WasmPlugin of the same policy counts each request a second \
                    time: delete it as soon as this is applied."
            }
        }
    }

    /// Both APIs have the same fields; those of the module are in a section of a TrafficExtension.
    fn spec(self, policy: &Policy, source: &ModuleLocation, scope: Scope, with_proto: bool) -> Map {
        let configuration = module_json::stream(policy, scope, with_proto);
        let with_config = |map: Map| map.with("pluginConfig", Node::from(&configuration));
        let target = target(policy);
        match self {
            Self::WasmPlugin => {
                with_config(with_place(with_module(target, policy, source), policy, scope))
            }
            Self::TrafficExtension => with_place(target, policy, scope)
                .with("wasm", with_config(with_module(Map::new(), policy, source))),
        }
    }
}

const PLACE: &str = "It has no fixed place either: filters that EnvoyFilters insert first \
    come before it, and what those answer is not counted.";

/// Adds the module, and what happens without it.
fn with_module(map: Map, policy: &Policy, source: &ModuleLocation) -> Map {
    let url = source.path().map_or_else(|| source.url(), |path| format!("file://{path}"));
    let fetched = source.path().is_none();
    let (strategy, why) = strategy(policy.failure_policy);
    map.with("url", url)
        .note("For an image the digest of its manifest, not the checksum of the module in it.")
        .with_some("sha256", source.sha256())
        .note("A secret of the type kubernetes.io/dockerconfigjson, in this namespace.")
        .with_some("imagePullSecret", policy.file.pull_secret.as_deref().filter(|_| fetched))
        .note(why)
        .with("failStrategy", strategy)
}

/// Adds the place in the chain, and the direction.
fn with_place(map: Map, policy: &Policy, scope: Scope) -> Map {
    let matching = mode(policy, scope).map(|mode| List::of(Map::of("mode", mode)));
    map.note(
        "Before Istio's own authentication and authorization, so that what they refuse is \
            counted and they see the restored scheme.",
    )
    .with("phase", "AUTHN")
    .note("One plugin for each direction: the module is told which one it counts.")
    .with_some("match", matching)
}

fn strategy(policy: FailurePolicy) -> (&'static str, &'static str) {
    match policy {
        FailurePolicy::Open => (
            "FAIL_OPEN",
            "A module that cannot be fetched, or has failed, lets requests pass, uncounted. Else a \
                failed fetch is 403 for everything until the next change.",
        ),
        FailurePolicy::Closed => ("FAIL_CLOSE", WHY_CLOSED),
        FailurePolicy::Reload => ("FAIL_RELOAD", WHY_RELOAD),
    }
}

/// Istio's `mode` for a scope, seen from the app.
fn mode(policy: &Policy, scope: Scope) -> Option<&'static str> {
    let mode = if scope == Scope::Inbound { "SERVER" } else { "CLIENT" };
    policy.placement.facts().has_app_calls.then_some(mode)
}

fn target(policy: &Policy) -> Map {
    let Facts { selector, targets, form, .. } = placement::facts(policy);
    let labels = selector.map(|labels| Map::of("matchLabels", labels));
    let target = Map::new().with_some("selector", labels);
    let target = match form {
        Form::WasmPlugin => target.note("Selectors do not reach a waypoint."),
        _ => target,
    };
    target.with_some("targetRefs", targets)
}
