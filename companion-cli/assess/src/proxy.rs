//! The settings that decide how a proxy stops.

use serde::Serialize;

/// Kinds of proxies, by what ends them.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, strum::IntoStaticStr,
)]
#[serde(rename_all = "snake_case")]
pub enum ProxyKind {
    /// A gateway whose Deployment a user or a chart has written.
    #[strum(serialize = "chart gateway")]
    ChartGateway,
    /// A gateway that Istio makes for a Gateway resource.
    #[strum(serialize = "Gateway API gateway")]
    GatewayApi,
    #[strum(serialize = "classic sidecar")]
    ClassicSidecar,
    #[strum(serialize = "native sidecar")]
    NativeSidecar,
    /// A sidecar that the mesh injects as a classic or as a native one.
    #[strum(serialize = "sidecar")]
    Sidecar,
    #[strum(serialize = "waypoint")]
    Waypoint,
    #[strum(serialize = "Envoy Gateway")]
    EnvoyGateway,
    #[strum(serialize = "Envoy without a mesh")]
    PlainEnvoy,
    /// An app whose traffic the node's ztunnel takes.
    #[strum(serialize = "ambient app, no proxy")]
    AmbientApp,
}

impl ProxyKind {
    /// The name in tables and messages.
    #[must_use]
    pub fn name(self) -> &'static str {
        self.into()
    }
}

/// The stop hook of the proxy's container.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Hook {
    #[default]
    None,
    /// It takes so many milliseconds.
    Sleep(u64),
    /// How long it takes is not known.
    Other,
}

/// The settings of Istio's agent, which ends Envoy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Agent {
    /// `terminationDrainDuration`, in milliseconds; none if it is filled in later.
    pub drain: Option<u64>,
    /// Whether that is Istio's default, and the mesh may have another one.
    pub is_assumed: bool,
    /// `MINIMUM_DRAIN_DURATION`, in milliseconds, if the agent waits until no connection is left.
    pub exit_on_zero: Option<u64>,
}

impl Default for Agent {
    /// Istio's own defaults.
    fn default() -> Self {
        Self { drain: Some(5_000), is_assumed: true, exit_on_zero: None }
    }
}

/// The shutdown manager of Envoy Gateway.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Manager {
    /// `drainTimeout`, in milliseconds; none if it is filled in later.
    pub timeout: Option<u64>,
    /// `minDrainDuration`, in milliseconds.
    pub least: u64,
    /// Whether these are Envoy Gateway's defaults, and the Gateway may have other ones.
    pub is_assumed: bool,
}

impl Default for Manager {
    /// Envoy Gateway's own defaults.
    fn default() -> Self {
        Self { timeout: Some(60_000), least: 10_000, is_assumed: true }
    }
}

/// The gate of laststream in the proxy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ProxyGate {
    /// Its deadline, in milliseconds.
    pub deadline: u64,
    /// Whether its drain begins when Istio's agent stops, without a stop hook.
    pub is_started_by_agent: bool,
}

/// How the proxy of a Job ends when the Job's command has ended.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Job {
    /// The pod is not of a Job.
    #[default]
    No,
    /// The command does not end the proxy.
    Unended,
    /// The command ends the proxy.
    Ended,
}

/// A proxy with the settings of its pod.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Proxy {
    pub kind: ProxyKind,
    /// The grace period in seconds; none if it is filled in later.
    pub grace: Option<u64>,
    pub hook: Hook,
    pub agent: Agent,
    pub manager: Manager,
    pub gate: Option<ProxyGate>,
    pub job: Job,
    /// Whether Envoy gets its listeners from a control plane, so that files do not show them.
    pub is_by_xds: bool,
}

impl Proxy {
    /// A proxy with the defaults of Kubernetes, Istio and Envoy Gateway.
    #[must_use]
    pub fn of(kind: ProxyKind) -> Self {
        Self {
            kind,
            grace: Some(30),
            hook: Hook::None,
            agent: Agent::default(),
            manager: Manager::default(),
            gate: None,
            job: Job::No,
            is_by_xds: false,
        }
    }
}
