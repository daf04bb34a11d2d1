//! The kinds of files, and the places of the stop hook.

use laststream_policy::PolicyProblem;

/// The kinds of files that can be rendered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(any(feature = "clap", test), derive(clap::ValueEnum))]
pub enum Kind {
    /// One EnvoyFilter with all parts: counters, gate, x-forwarded-proto. For gateways and
    /// sidecars.
    #[cfg_attr(any(feature = "clap", test), value(name = "envoyfilter"))]
    EnvoyFilter,
    /// WasmPlugins, or TrafficExtensions if the policy says Istio 1.30 or newer. They support pull
    /// secrets and waypoints. The gate of a waypoint is in its `overlay`.
    #[cfg_attr(any(feature = "clap", test), value(name = "wasmplugin"))]
    WasmPlugin,
    /// A complete bootstrap for an Envoy without a mesh.
    Envoy,
    /// Envoy Gateway's policies; with `delivery: program` or `image_volume` an EnvoyProxy with
    /// gate and stop hook.
    EnvoyGateway,
    /// The gate as a program beside an Envoy without a mesh, with `delivery: program`: systemd
    /// units and a compose file.
    Program,
    /// The stop hook that asks the gate, with `drain: {starts: hook}`; `--for` chooses its place.
    Lifecycle,
    /// Pod annotations for Istio's bootstrap: statistics, drain times, and
    /// EXIT_ON_ZERO_ACTIVE_CONNECTIONS if the policy keeps it; with the grace period where no hook
    /// has it.
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
    #[cfg_attr(any(feature = "clap", test), value(name = "virtualservice"))]
    VirtualService,
    /// A patch for a Job, whose command waits for the sidecar and ends it.
    Job,
    /// Everything that the policy uses in the proxies, and a kustomization.
    All,
}

/// The places for a stop hook.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(any(feature = "clap", test), derive(clap::ValueEnum))]
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

/// The error of a kind that has nothing for the policy's placement.
pub(crate) fn misplaced<T>(why: &str) -> Result<T, PolicyProblem> {
    Err(PolicyProblem::new("placement", why))
}
