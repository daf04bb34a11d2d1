//! The questions that the kinds of files ask of a placement.

use serde_json::Value;

use crate::files::File;
use crate::kind::{HookPlace, Kind};
use crate::volume::Volume;
use laststream_base::yaml::{List, Map};
use laststream_policy::placement::{EnvoyGateway, PlainEnvoy};
use laststream_policy::{Policy, PolicyProblem};

/// The files of pods that the user, not a controller, writes.
pub(crate) trait OwnPod {
    /// The stop hook in this place.
    fn lifecycle(&self, policy: &Policy, port: u16, home: HookPlace) -> PodFile;

    /// The annotations of the pods, where pods may bring settings of the bootstrap.
    fn proxy_config(&self, policy: &Policy, annotations: Map) -> PodFile;

    fn image_volume(&self, policy: &Policy, volumes: &[Volume]) -> PodFile;

    /// The commands that apply these files.
    fn steps(&self, policy: &Policy, files: &[String]) -> Vec<String>;
}

pub(crate) type PodFile = Result<File, PolicyProblem>;

/// Why pods that a controller makes have none of these files.
pub(crate) struct NoOwnPod {
    pub(crate) lifecycle: PolicyProblem,
    pub(crate) proxy_config: &'static str,
    pub(crate) image_volume: &'static str,
}

impl NoOwnPod {
    /// Neither Istio's agent nor its annotations are there.
    pub(super) fn by_controller() -> Self {
        const NO_AGENT: &str = "has no pilot-agent that could ask the gate in a stop hook: Istio's \
            gateways and sidecars have one";
        Self {
            lifecycle: PolicyProblem::new("placement", NO_AGENT),
            proxy_config: NO_ANNOTATIONS,
            image_volume: "has a Deployment that a controller makes: `render all` writes its \
                volume where that controller takes it from",
        }
    }
}

pub(super) const NO_ANNOTATIONS: &str = "has no ProxyConfig that pods could bring along: Istio's \
    gateways and sidecars have one";

/// What differs between placements.
pub(crate) struct Facts<'p> {
    pub(crate) form: Form<'p>,
    /// Why it takes no EnvoyFilters.
    pub(crate) no_envoyfilter: Option<&'static str>,
    /// The comments on the gate beside a WasmPlugin, with a gate and without; or why it takes no
    /// WasmPlugins.
    pub(crate) plugin_gate: Result<[&'static str; 2], &'static str>,
    /// The labels of its pods; none for all pods of the namespace, or if resources have
    /// `targetRefs`.
    pub(crate) selector: Option<Map>,
    pub(crate) targets: Option<List>,
    /// The Gateway whose pods a controller makes.
    pub(crate) gateway: Option<&'p str>,
    /// What Istio makes besides the Deployment: keys of the overlay with their `spec`. `None` where
    /// Istio makes no Deployment.
    pub(crate) overlay: Option<Vec<(&'static str, &'p Value)>>,
    pub(crate) pod: Result<&'p dyn OwnPod, NoOwnPod>,
    /// The place of the stop hook, unless the command line names another.
    pub(crate) hook: Option<HookPlace>,
    /// Whether its sidecars are init containers; `None` if it has no sidecars.
    pub(crate) native_sidecar: Option<bool>,
    /// The VM id, the same for counter and gate: otherwise the gate finds no counter.
    pub(crate) vm_id: Option<String>,
    /// The listeners for Envoy's own filters, or why it takes none.
    pub(crate) listeners: Result<Listeners, &'static str>,
    /// Why `engine: composite` is refused.
    pub(crate) no_composite: Option<&'static str>,
    /// What the early mutation leaves for the module, unless the policy has `keep`.
    pub(crate) leaves: Leaves,
}

/// The file with the counters.
#[derive(Clone, Copy)]
pub(crate) enum Form<'p> {
    EnvoyFilter,
    /// Selectors do not reach these proxies.
    WasmPlugin,
    EnvoyGateway(&'p EnvoyGateway),
    Envoy(&'p PlainEnvoy),
}

impl Form<'_> {
    pub(crate) fn kind(self) -> Kind {
        match self {
            Self::EnvoyFilter => Kind::EnvoyFilter,
            Self::WasmPlugin => Kind::WasmPlugin,
            Self::EnvoyGateway(_) => Kind::EnvoyGateway,
            Self::Envoy(_) => Kind::Envoy,
        }
    }
}

/// The listeners for which Envoy's own filters must be right.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Listeners {
    /// Without TLS on this port, and Envoy overwrites the header: it is http before any filter
    /// runs.
    Edge(u16),
    /// Without TLS: where Envoy does not overwrite the header, it writes http once the header is
    /// removed.
    Plaintext,
    /// A sidecar's, where the early mutation of the module writes http over the peer's own header.
    Sidecar,
    Any,
}

impl Listeners {
    /// The port of the only listener.
    pub(crate) fn own_port(self) -> Option<u16> {
        match self {
            Self::Edge(port) => Some(port),
            Self::Plaintext | Self::Sidecar | Self::Any => None,
        }
    }
}

/// The value of `x-forwarded-proto` after the early mutation, where Envoy does not overwrite it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Leaves {
    Own,
    /// The connection's scheme, which Envoy writes where none is.
    Connection,
    Http,
}

pub(super) const NO_PLUGIN_GATE: &str = "A WasmPlugin has no listener, so there is no gate here: \
    streams are counted, and nothing holds a drain. `render envoyfilter` has one; it pulls with \
    the proxy's own credentials.";
