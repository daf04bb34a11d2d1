//! The section `drain`: how a drain goes, and how long it may take.

pub use laststream_filter::config::wire::{
    App, BeginCall as Begin, Finish, LongLivedPolicy as LongLived, Starts,
};
use schemars::JsonSchema;
use serde::Deserialize;

use laststream_base::time_span::TimeSpan;

/// How a drain goes, and how long it may take.
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Drain {
    /// The longest request that must not be cut.
    pub longest_request: Option<TimeSpan>,
    /// The pod's `terminationGracePeriodSeconds`.
    pub grace_period: Option<TimeSpan>,
    /// An environment variable of the proxy with the pod's own `terminationGracePeriodSeconds`,
    /// such as `TERMINATION_GRACE_PERIOD_SECONDS`. If that is shorter than `grace_period`, the
    /// deadline is earlier.
    pub grace_from: Option<String>,
    /// The time, from the beginning of the drain, after which the gate opens even if streams are in
    /// flight.
    pub deadline: Option<TimeSpan>,
    /// The quiet period: how long nothing may be in flight before the drain is over, by default 1s.
    pub quiet: Option<TimeSpan>,
    /// How long the gate waits, after the drain has begun, before it tells Envoy to drain, while
    /// the removal of the endpoint spreads. The deadline includes it. By default 0s, and 10s for
    /// Envoy Gateway, whose own manager takes that.
    pub delay: Option<TimeSpan>,
    /// The load balancer that sends clients to the pod's own address. It sends new ones for a while
    /// after the pod's deletion, so it sets the default of `delay`.
    pub behind: Option<Behind>,
    /// How long Istio's agent drains after SIGTERM when the deadline was reached: its
    /// `terminationDrainDuration`, by default 5s. With `starts: agent` that follows from the
    /// deadline.
    pub agent: Option<TimeSpan>,
    /// What starts the drain, by default `agent` for gateways and for sidecars with `native:
    /// false`, without a Job and with Istio 1.21 or newer; `hook` elsewhere, and beside fields that
    /// only a hook knows.
    pub starts: Option<Starts>,
    /// How clients are told to leave, by default `drain_listeners`; `nothing` with `starts: agent`
    /// and no `delay`, because the agent has told them; `fail_health_checks` for
    /// Envoy Gateway, as its own manager does.
    pub begin: Option<Begin>,
    /// The last call of the gate, at zero. The default is `drain_agent` in Istio and `nothing`
    /// elsewhere.
    pub finish: Option<Finish>,
    /// Whether long-lived streams hold the drain, by default `wait`.
    pub long_lived: Option<LongLived>,
    /// Streams that are older than this when the drain begins are long-lived, too. At least 1s,
    /// and at least the quiet period.
    pub long_lived_after: Option<TimeSpan>,
    /// Also wait until the app has gone, so that the proxy outlives it. Gateways have no
    /// app.
    pub wait_for_app: Option<App>,
    /// Envoy's own `drain_timeout_jitter`, in percent: Envoy sends the last GOAWAY of an HTTP/2
    /// connection 5s after the first one, and by this up to so much later, so that connections do
    /// not end together. The first GOAWAY and the ends of WebSockets are not spread. In Istio only
    /// proxies of 1.31 and newer get it; an Envoy without a mesh needs 1.39.
    #[schemars(range(min = 1, max = 100))]
    pub drain_timeout_jitter: Option<u8>,
    /// Keeps Istio's own EXIT_ON_ZERO_ACTIVE_CONNECTIONS beside the gate; for `render
    /// proxy-config`.
    pub exit_on_zero: bool,
}

/// A load balancer that learns late that a pod stops.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Behind {
    /// A Network Load Balancer of AWS with IP targets: `delay` is 120s.
    AwsNlb,
    /// An Application Load Balancer of AWS: `delay` is 70s.
    AwsAlb,
}

impl Behind {
    /// How long new clients come after the deletion of a pod; docs/timeouts.md has the sources.
    #[must_use]
    pub fn delay(self) -> TimeSpan {
        TimeSpan::seconds(match self {
            Self::AwsNlb => 120,
            Self::AwsAlb => 70,
        })
    }
}
