//! Everything that a policy becomes: YAML for Istio, Envoy, Envoy Gateway and Helm, with the reason beside each odd line.
//!
//! Rendering is pure: the same policy gives the same bytes. Only the digest of an image may have to be asked for.

mod envoy;
mod envoy_gateway;
mod envoyfilter;
mod gate_access;
mod hook;
mod job;
mod kustomization;
mod lifecycle;
pub(crate) mod local;
mod native;
pub mod output;
mod parts;
mod proxy_config;
mod scheme;
mod virtualservice;
mod wasmplugin;

use crate::policy::file::{Engine, GateSecret, Placement};
use crate::policy::{Policy, Problem, Resolve};
use crate::yaml::{self, List, Map};

/// What can be rendered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// One EnvoyFilter with all parts.
    EnvoyFilter,
    /// WasmPlugins, for pull secrets and waypoints.
    WasmPlugin,
    /// A bootstrap for an Envoy without a mesh.
    Envoy,
    /// Envoy Gateway's policies.
    EnvoyGateway,
    /// The stop hook.
    Lifecycle(Home),
    /// What Istio's bootstrap must be told.
    ProxyConfig,
    /// Retries at the caller's side.
    VirtualService,
    /// A Job's command that waits for its sidecar and ends it.
    Job,
    /// All that the policy has a use for.
    All,
}

/// Where a stop hook can live.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Home {
    /// In a Deployment's pods, over the injected container.
    Pod,
    /// The same, where sidecars are init containers.
    NativeSidecar,
    /// In Istio's Helm values, for every proxy of the mesh.
    HelmValues,
    /// In the values of Istio's gateway chart.
    GatewayChart,
}

impl Kind {
    /// Each of them; stop hooks in each of their homes.
    pub const ALL: [Self; 12] = [
        Self::EnvoyFilter,
        Self::WasmPlugin,
        Self::Envoy,
        Self::EnvoyGateway,
        Self::Lifecycle(Home::Pod),
        Self::Lifecycle(Home::NativeSidecar),
        Self::Lifecycle(Home::HelmValues),
        Self::Lifecycle(Home::GatewayChart),
        Self::ProxyConfig,
        Self::VirtualService,
        Self::Job,
        Self::All,
    ];
}

/// A file that was rendered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct File {
    /// Its name in the folder.
    pub name: String,
    /// What is in it.
    pub text: String,
    /// Whether it is an object for `kubectl apply`; patches and values are not.
    applies: bool,
}

/// What was rendered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rendered {
    /// The files, in the order of their kinds.
    pub files: Vec<File>,
    /// What the policy wants and cannot have this way.
    pub warnings: Vec<String>,
}

/// Begins every rendered file, and tells it from others in the folder.
pub const MARK: &str = "Rendered by laststream. Change the policy and render again.";

/// Renders.
///
/// # Errors
/// What the policy asks for cannot be had in this way.
pub fn render(kind: Kind, policy: &Policy, resolve: Resolve<'_>) -> Result<Rendered, Problem> {
    let one = |file: File| Ok(Rendered { files: vec![file], warnings: Vec::new() });
    match kind {
        Kind::EnvoyFilter => {
            let file = envoyfilter::render(policy, &policy.source(resolve)?)?;
            let native = policy.engine == Engine::Native && policy.forwarded_proto.is_some();
            let warnings = [(policy.pull_secret.is_some(), envoyfilter::NO_SECRET), (native, scheme::NEEDS)];
            let warnings = warnings.into_iter().filter(|(is_so, _)| *is_so).map(|(_, warning)| warning.to_owned()).collect();
            Ok(Rendered { files: vec![file], warnings })
        }
        Kind::WasmPlugin => one(wasmplugin::render(policy, &policy.source(resolve)?)?),
        Kind::Envoy => one(envoy::render(policy, &policy.source(resolve)?)?),
        Kind::EnvoyGateway => one(envoy_gateway::render(policy, &policy.source(resolve)?)?),
        Kind::Lifecycle(home) => one(lifecycle::render(policy, home)?),
        Kind::ProxyConfig => one(proxy_config::render(policy)?),
        Kind::VirtualService => one(virtualservice::render(policy)?),
        Kind::Job => one(job::render(policy)?),
        Kind::All => all(policy, resolve),
    }
}

/// What this policy has a use for.
fn all(policy: &Policy, resolve: Resolve<'_>) -> Result<Rendered, Problem> {
    let mut kinds = match &policy.placement {
        Placement::Gateway(_) | Placement::Sidecar(_) => vec![Kind::EnvoyFilter],
        Placement::Waypoint(_) => vec![Kind::WasmPlugin],
        Placement::EnvoyGateway(_) => vec![Kind::EnvoyGateway],
        Placement::Envoy(_) => vec![Kind::Envoy],
    };
    // A Job has no Deployment to patch, and no stop hook: its own command asks the gate.
    if policy.gate_port.is_some()
        && policy.job.is_none()
        && let Some(home) = home_of(&policy.placement)
    {
        kinds.extend(has_hook(policy).then_some(Kind::Lifecycle(home)));
        kinds.push(Kind::ProxyConfig);
    }
    if policy.retries.is_some() {
        kinds.push(Kind::VirtualService);
    }
    if policy.job.is_some() {
        kinds.push(Kind::Job);
    }
    let warnings = if has_hook(policy) { Vec::new() } else { vec![format!("gate.secret: there is no stop hook: {}", hook::NO_HOOK)] };
    let mut all = Rendered { files: Vec::with_capacity(kinds.len() + 1), warnings };
    for kind in kinds {
        let rendered = render(kind, policy, resolve)?;
        all.files.extend(rendered.files);
        all.warnings.extend(rendered.warnings);
    }
    all.files.extend(kustomization::render(&all.files));
    Ok(all)
}

/// Whether a stop hook can be rendered that sends the secret.
fn has_hook(policy: &Policy) -> bool {
    !matches!(policy.gate_secret, Some(GateSecret::Sds(_)))
}

/// Where the hook lives unless the command line says otherwise. Istio makes the Deployment of a Gateway of the Gateway API itself.
#[must_use]
pub fn home_of(placement: &Placement) -> Option<Home> {
    match placement {
        Placement::Gateway(gateway) if gateway.name.is_some() => None,
        Placement::Gateway(_) => Some(Home::GatewayChart),
        Placement::Sidecar(sidecar) if sidecar.native => Some(Home::NativeSidecar),
        Placement::Sidecar(_) => Some(Home::Pod),
        _ => None,
    }
}

/// An object, or several, for `kubectl apply`.
fn objects(name: &str, about: &[String], documents: &[Map]) -> File {
    File { name: name.into(), text: text(about, documents), applies: true }
}

/// A patch, values, a bootstrap.
fn other(name: &str, about: &[String], document: Map) -> File {
    File { name: name.into(), text: text(about, &[document]), applies: false }
}

fn text(about: &[String], documents: &[Map]) -> String {
    let paragraphs: Vec<String> = std::iter::once(MARK.to_owned()).chain(about.iter().cloned()).collect();
    yaml::write(&paragraphs, documents)
}

/// The labels of the pods that are meant; nothing where all of the namespace are.
fn pods(policy: &Policy) -> Option<Map> {
    let selector = match &policy.placement {
        Placement::Gateway(gateway) => &gateway.selector,
        Placement::Sidecar(sidecar) => &sidecar.selector,
        Placement::Waypoint(_) | Placement::EnvoyGateway(_) | Placement::Envoy(_) => return None,
    };
    (!selector.is_empty()).then(|| selector.iter().map(|(key, value)| (key, value.as_str())).collect())
}

/// The Gateway that is meant by its name.
fn target_refs(policy: &Policy) -> Option<List> {
    let Placement::Gateway(gateway) = &policy.placement else { return None };
    gateway.name.as_deref().map(|name| List::new().item(gateway_ref(name)))
}

fn gateway_ref(name: &str) -> Map {
    Map::new().with("group", "gateway.networking.k8s.io").with("kind", "Gateway").with("name", name)
}

/// `metadata` of an object.
fn metadata(policy: &Policy, name: &str) -> Map {
    let labels: Option<Map> = (!policy.labels.is_empty()).then(|| policy.labels.iter().map(|(key, value)| (key, value.as_str())).collect());
    Map::new().with("name", name).with_some("namespace", policy.namespace.as_deref()).with_some("labels", labels)
}

#[cfg(test)]
mod tests;
