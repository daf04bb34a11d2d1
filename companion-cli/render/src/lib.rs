//! Renders a policy as YAML for Istio, Envoy, Envoy Gateway and Helm, with comments that give
//! reasons.
//!
//! Rendering is pure: the same policy gives the same bytes. Only the digest of an image may have to
//! be asked for.

#![allow(missing_docs, reason = "a comment says why: the names of an internal crate say what")]

pub mod bootstrap;
mod client_connection;
mod envoy;
mod envoy_gateway;
mod envoy_proxy;
mod envoyfilter;
mod gate;
mod hook;
mod image_volume;
pub mod into;
mod job;
mod kustomization;
mod lifecycle;
pub mod local;
mod native;
mod next_steps;
pub mod output;
mod overlay;
mod parts;
mod proxy_config;
mod scheme;
mod shown_request;
mod virtualservice;
mod volume;
mod wasmplugin;
mod websockets;

use std::collections::BTreeMap;

use clap::ValueEnum;
pub use envoyfilter::IMAGE_ANNOTATION;
pub use hook::{fixed_options, question};
pub use next_steps::next_steps;

use laststream_base::yaml::{self, List, Map, Node};
use laststream_policy::file::{Delivery, Engine, GateSecret, GatewayApi, Placement, Waypoint};
use laststream_policy::{Policy, PolicyProblem, Resolve};

/// The kinds of files that can be rendered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Kind {
    /// One EnvoyFilter with all parts: counters, gate, x-forwarded-proto. For gateways and
    /// sidecars.
    #[value(name = "envoyfilter")]
    EnvoyFilter,
    /// WasmPlugins, or TrafficExtensions if the policy says Istio 1.30 or newer. They support pull
    /// secrets and waypoints. The gate of a waypoint is in its `overlay`.
    #[value(name = "wasmplugin")]
    WasmPlugin,
    /// A complete bootstrap for an Envoy without a mesh.
    Envoy,
    /// Envoy Gateway's policies; with `delivery: image_volume` an EnvoyProxy with gate and stop
    /// hook.
    EnvoyGateway,
    /// The stop hook that asks the gate; `--for` chooses its place.
    Lifecycle,
    /// Pod annotations for Istio's bootstrap: statistics, drain times, and
    /// EXIT_ON_ZERO_ACTIVE_CONNECTIONS if the policy keeps it.
    ProxyConfig,
    /// An EnvoyFilter that makes the count of running proxies exact, until their pods have the
    /// annotations of `proxy-config`. For Istio 1.30 and newer; `all` does not write it.
    Statistics,
    /// The pod's volume with the module's image, for `delivery: image_volume`.
    ImageVolume,
    /// The ConfigMap that Istio merges over the Deployment of a Gateway of the Gateway API, or of
    /// a waypoint, whose gate is in it.
    Overlay,
    /// A VirtualService with retries, as a second line.
    #[value(name = "virtualservice")]
    VirtualService,
    /// A patch for a Job, whose command waits for the sidecar and ends it.
    Job,
    /// Everything that the policy uses in the proxies, and a kustomization.
    All,
}

/// The places for a stop hook.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum HookPlace {
    /// A patch for a Deployment: a container `istio-proxy` that Istio merges over its own.
    Pod,
    /// The same for sidecars that are init containers.
    NativeSidecar,
    /// `global.proxy.lifecycle` of Istio's Helm values: for every proxy, in place of Istio's own
    /// hooks.
    HelmValues,
    /// Values of Istio's gateway Helm chart.
    GatewayChart,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct File {
    pub name: String,
    pub text: String,
    /// Whether it is an object for `kubectl apply`; patches and values are not.
    applies: bool,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rendered {
    /// The files, in the order of their kinds.
    pub files: Vec<File>,
    /// Settings of the policy that this kind cannot provide.
    pub warnings: Vec<String>,
}

impl From<Vec<File>> for Rendered {
    fn from(files: Vec<File>) -> Self {
        Self { files, warnings: Vec::new() }
    }
}

/// The beginning of every YAML file that is rendered from a policy. It distinguishes these files
/// from others in the folder.
pub const MARK: &str = "Rendered by laststream. Change the policy and render again.";

const GATEWAY_PATCH: &str = "gateway.patch.yaml";

/// The files that [`Kind::All`] can write, whatever the policy. Its comparison ignores all others.
const FILES_OF_ALL: [&str; 15] = [
    "envoy-gateway.yaml",
    "envoy.yaml",
    "envoyfilter.yaml",
    GATEWAY_PATCH,
    "image-volume.yaml",
    "job.yaml",
    "kustomization.yaml",
    "lifecycle.gateway-chart.yaml",
    "lifecycle.native-sidecar.yaml",
    "lifecycle.pod.yaml",
    "overlay.yaml",
    "proxy-config.yaml",
    "trafficextension.yaml",
    "virtualservice.yaml",
    "wasmplugin.yaml",
];

/// Renders a policy as files of this kind.
///
/// # Errors
/// This kind cannot provide what the policy asks for.
pub fn render(
    kind: Kind,
    policy: &Policy,
    resolve: Resolve<'_>,
) -> Result<Rendered, PolicyProblem> {
    let one = |file: File| Ok(vec![file].into());
    match kind {
        Kind::EnvoyFilter => {
            let file = envoyfilter::render(policy, resolve)?;
            let native = policy.engine == Engine::Native && policy.forwarded_proto.is_some();
            let warnings = texts_where([
                (envoyfilter::lacks_secret(policy), envoyfilter::NO_SECRET),
                (native, scheme::NEEDS),
            ]);
            Ok(Rendered { files: vec![file], warnings })
        }
        Kind::WasmPlugin => one(wasmplugin::render(policy, &policy.source(resolve)?)?),
        Kind::Envoy => one(envoy::render(policy, resolve)?),
        Kind::EnvoyGateway => Ok(envoy_gateway::render(policy, &policy.source(resolve)?)?.into()),
        Kind::Lifecycle => lifecycle(policy, home_of(policy).unwrap_or(HookPlace::Pod)),
        Kind::ProxyConfig => one(proxy_config::render(policy)?),
        Kind::Statistics => one(envoyfilter::statistics::render(policy)?),
        Kind::ImageVolume => one(image_volume::render(policy, resolve)?),
        Kind::Overlay => Ok(overlay::render(policy, resolve)?.into()),
        Kind::VirtualService => one(virtualservice::render(policy)?),
        Kind::Job => one(job::render(policy)?),
        Kind::All => all(policy, resolve),
    }
}

/// Renders the stop hook for this home.
///
/// # Errors
/// The placement has no use for a hook there.
pub fn lifecycle(policy: &Policy, home: HookPlace) -> Result<Rendered, PolicyProblem> {
    Ok(vec![lifecycle::render(policy, home)?].into())
}

/// The texts whose conditions are true.
fn texts_where<const N: usize>(texts: [(bool, &str); N]) -> Vec<String> {
    let holding = texts.into_iter().filter(|(holds, _)| *holds);
    holding.map(|(_, text)| text.to_owned()).collect()
}

/// All kinds, rendered from a policy, with the stop hook in each of its homes.
#[cfg(test)]
pub fn every_kind(policy: &Policy, resolve: Resolve<'_>) -> Vec<Result<Rendered, PolicyProblem>> {
    let hooks = HookPlace::value_variants().iter().map(|home| lifecycle(policy, *home));
    Kind::value_variants().iter().map(|kind| render(*kind, policy, resolve)).chain(hooks).collect()
}

/// The error of a kind that has nothing for the policy's placement.
fn misplaced<T>(why: &str) -> Result<T, PolicyProblem> {
    Err(PolicyProblem::new("placement", why))
}

/// The kinds that this policy uses.
fn kinds_of(policy: &Policy) -> Vec<Kind> {
    let mut kinds = vec![match &policy.placement {
        Placement::Gateway(_) | Placement::GatewayApi(_) | Placement::Sidecar(_) => {
            Kind::EnvoyFilter
        }
        Placement::Waypoint(_) => Kind::WasmPlugin,
        Placement::EnvoyGateway(_) => Kind::EnvoyGateway,
        Placement::Envoy(_) => Kind::Envoy,
    }];
    let made_by_istio = overlay::gateway_of(&policy.placement);
    if made_by_istio.is_some_and(|api| overlay::is_needed(policy, &api)) {
        kinds.push(Kind::Overlay);
    }
    if policy.delivery == Delivery::ImageVolume && has_pod_of_its_own(&policy.placement) {
        kinds.push(Kind::ImageVolume);
    }
    // A Job has no Deployment to patch, and no stop hook: its own command asks the gate.
    if policy.file.job.is_none() && home_of(policy).is_some() {
        let has_hook = policy.gate_port.is_some() && has_hook(policy);
        kinds.extend(has_hook.then_some(Kind::Lifecycle));
        let has_annotations =
            policy.placement.is_istio() && proxy_config::annotations(policy).is_ok();
        kinds.extend(has_annotations.then_some(Kind::ProxyConfig));
    }
    if policy.file.retries.is_some() {
        kinds.push(Kind::VirtualService);
    }
    if policy.file.job.is_some() {
        kinds.push(Kind::Job);
    }
    kinds
}

/// All kinds that this policy uses, and a kustomization.
fn all(policy: &Policy, resolve: Resolve<'_>) -> Result<Rendered, PolicyProblem> {
    let kinds = kinds_of(policy);
    let warnings = if has_hook(policy) {
        Vec::new()
    } else {
        vec![format!("gate.secret: there is no stop hook: {}", hook::NO_HOOK)]
    };
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
    !matches!(policy.file.gate.secret, Some(GateSecret::Sds(_)))
}

/// The home of the hook, unless the command line names another.
fn home_of(policy: &Policy) -> Option<HookPlace> {
    match &policy.placement {
        Placement::Gateway(_) => Some(HookPlace::GatewayChart),
        Placement::Sidecar(sidecar) if sidecar.is_native() => Some(HookPlace::NativeSidecar),
        Placement::Sidecar(_) => Some(HookPlace::Pod),
        Placement::Envoy(_) if policy.file.program_image.is_some() => Some(HookPlace::Pod),
        _ => None,
    }
}

/// Whether the user, not a controller, writes the proxy's pod.
fn has_pod_of_its_own(placement: &Placement) -> bool {
    matches!(placement, Placement::Gateway(_) | Placement::Sidecar(_) | Placement::Envoy(_))
}

/// A file with objects for `kubectl apply`.
fn objects(name: &str, about: &[String], documents: &[Map]) -> File {
    File { name: name.into(), text: text(about, documents), applies: true }
}

/// A file that is not for `kubectl apply`: a patch, values, or a bootstrap.
fn other(name: &str, about: &[String], document: Map) -> File {
    File { name: name.into(), text: text(about, &[document]), applies: false }
}

fn text(about: &[String], documents: &[Map]) -> String {
    let paragraphs: Vec<String> =
        std::iter::once(MARK.to_owned()).chain(about.iter().cloned()).collect();
    yaml::write(&paragraphs, documents)
}

/// The labels of the policy's pods; none for all pods of the namespace, or if the resource has
/// `targetRefs`.
fn pods(policy: &Policy) -> Option<Map> {
    let selector = match &policy.placement {
        Placement::Gateway(gateway) => &gateway.selector,
        Placement::Sidecar(sidecar) => &sidecar.selector,
        Placement::GatewayApi(GatewayApi { class: Some(class), .. }) => {
            return Some(Map::of("gateway.networking.k8s.io/gateway-class-name", &**class));
        }
        Placement::GatewayApi(_)
        | Placement::Waypoint(_)
        | Placement::EnvoyGateway(_)
        | Placement::Envoy(_) => return None,
    };
    unless_empty(texts(selector))
}

fn texts(map: &BTreeMap<String, String>) -> Map {
    map.iter().map(|(key, value)| (key, value.as_str())).collect()
}

fn unless_empty(map: Map) -> Option<Map> {
    (map != Map::new()).then_some(map)
}

/// `targetRefs`: the Gateway by its name, or the class of waypoints.
fn target_refs(policy: &Policy) -> Option<List> {
    let (kind, name) = match &policy.placement {
        Placement::GatewayApi(api) => ("Gateway", api.gateway.as_deref()?),
        Placement::Waypoint(Waypoint { gateway: Some(name), .. }) => ("Gateway", &**name),
        Placement::Waypoint(Waypoint { class, .. }) => ("GatewayClass", class.as_deref()?),
        _ => return None,
    };
    Some(List::of(reference(kind, name)))
}

fn gateway_ref(name: &str) -> Map {
    reference("Gateway", name)
}

fn reference(kind: &str, name: &str) -> Map {
    Map::of("group", "gateway.networking.k8s.io").with("kind", kind).with("name", name)
}

/// An object with its usual parts.
fn object(api_version: &str, kind: &str, metadata: Map, spec: Map) -> Map {
    Map::of("apiVersion", api_version)
        .with("kind", kind)
        .with("metadata", metadata)
        .with("spec", spec)
}

/// The patch that makes a Gateway name the object with its parameters.
fn gateway_patch(policy: &Policy, gateway: &str, warning: Option<&str>, parameters: Map) -> File {
    let how = format!(
        "A patch for the Gateway: {}. Or write these lines into its manifest.",
        patch_gateway(policy, gateway, GATEWAY_PATCH)
    );
    let about: Vec<String> = [how].into_iter().chain(warning.map(str::to_owned)).collect();
    let spec = Map::of("infrastructure", Map::of("parametersRef", parameters));
    other(GATEWAY_PATCH, &about, Map::of("spec", spec))
}

/// The command for the file of [`gateway_patch`].
fn patch_gateway(policy: &Policy, gateway: &str, file: &str) -> String {
    let place = in_namespace(policy.namespace.as_deref());
    format!("kubectl{place} patch gateway {gateway} --type merge --patch-file {file}")
}

/// The option `--namespace` of kubectl.
fn in_namespace(namespace: Option<&str>) -> String {
    namespace.map(|name| format!(" --namespace {name}")).unwrap_or_default()
}

/// A YAML document as a text in YAML.
fn block(map: &Map) -> Node {
    Node::Block(yaml::write_map(map).trim_end().to_owned())
}

/// `metadata` of an object.
fn metadata(policy: &Policy, name: &str) -> Map {
    labelled(policy, name, texts(&policy.file.labels))
}

fn labelled(policy: &Policy, name: &str, labels: Map) -> Map {
    Map::of("name", name)
        .with_some("namespace", policy.namespace.as_deref())
        .with_some("labels", unless_empty(labels))
}

#[cfg(test)]
mod tests;
