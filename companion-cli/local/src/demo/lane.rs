//! The ways of stopping a pod that are compared, and the expected result of each. The hooks with
//! netstat come from <https://github.com/istio/istio/issues/7136>.

use serde::Serialize;
use strum::{IntoStaticStr, VariantArray};

/// One way of stopping a pod.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, IntoStaticStr, VariantArray)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case")]
pub enum Lane {
    Laststream,
    /// A classic sidecar as Istio injects it.
    NoHook,
    /// A hook of the app's container that sleeps.
    AppSleeps,
    ExitOnZero,
    Netstat,
    /// The netstat hook that knows of the agent.
    NetstatFixed,
    Retries,
    NativeSidecar,
}

/// The reason for the end of the pod's proxy.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum EndedBy {
    /// Its agent, a fixed time after SIGTERM.
    DrainTime,
    /// Its agent, when it saw no connection.
    ZeroConnections,
    /// Its agent, at once at SIGTERM, because it had drained Envoy before.
    Drained,
    Sigkill,
    Itself,
    /// The proxy still ran when the demo ended.
    StillRunning,
}

impl EndedBy {
    pub(super) fn words(self) -> &'static str {
        match self {
            Self::DrainTime => "its agent, a fixed time after SIGTERM",
            Self::ZeroConnections => "its agent, which saw no connection",
            Self::Drained => "its agent, at once at SIGTERM",
            Self::Sigkill => "SIGKILL",
            Self::Itself => "itself",
            Self::StillRunning => "nothing (it still runs)",
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Expected {
    pub(super) lost: bool,
    pub(super) executions: usize,
    pub(super) ended_by: EndedBy,
}

impl Lane {
    /// All lanes, in the order in which they are shown.
    pub const ALL: &[Self] = Self::VARIANTS;

    /// Its name, of at most 24 characters.
    pub fn name(self) -> &'static str {
        match self {
            Self::Laststream => "laststream",
            Self::NoHook => "classic sidecar, no hook",
            Self::AppSleeps => "sleep 5 in the app",
            Self::ExitOnZero => "exit on zero connections",
            Self::Netstat => "netstat hook",
            Self::NetstatFixed => "netstat hook, corrected",
            Self::Retries => "retries at the gateway",
            Self::NativeSidecar => "native sidecar",
        }
    }

    pub fn about(self) -> &'static str {
        match self {
            Self::Laststream => {
                "laststream counts streams in a classic sidecar; preStop: pilot-agent wait --url \
                    …/prestop"
            }
            Self::NoHook => "Istio's agent ends the sidecar a fixed time after SIGTERM",
            Self::AppSleeps => {
                "preStop of the app's container: sleep 5; the classic sidecar has no hook"
            }
            Self::ExitOnZero => {
                "EXIT_ON_ZERO_ACTIVE_CONNECTIONS: the classic sidecar stays until it has no \
                    connection"
            }
            Self::Netstat => {
                "preStop: while [ $(netstat -plunt | grep tcp | grep -v envoy | wc -l) -ne 0 ]; do \
                    sleep 1; done"
            }
            Self::NetstatFixed => "preStop: the same with egrep -v 'envoy|pilot-agent'",
            Self::Retries => {
                "no hook; the gateway repeats broken requests on another pod (retryOn: reset)"
            }
            Self::NativeSidecar => {
                "Istio's default since 1.27, with its own hook: an init container with \
                    restartPolicy Always, which kubelet ends after the app"
            }
        }
    }

    pub(super) fn key(self) -> &'static str {
        self.into()
    }

    pub(super) fn pods(self) -> usize {
        if self == Self::Retries { 2 } else { 1 }
    }

    /// Whether kubelet stops the sidecar after the app, and not at the same time.
    pub(super) fn is_native(self) -> bool {
        self == Self::NativeSidecar
    }

    /// Whether the agent waits for the last connection after SIGTERM, and not only for
    /// `terminationDrainDuration`.
    pub(super) fn exits_on_zero(self) -> bool {
        self == Self::ExitOnZero
    }

    pub(super) fn expected(self) -> Expected {
        let answered = |ended_by| Expected { lost: false, executions: 1, ended_by };
        match self {
            Self::NoHook | Self::AppSleeps => {
                Expected { lost: true, ..answered(EndedBy::DrainTime) }
            }
            Self::ExitOnZero | Self::Netstat => answered(EndedBy::Sigkill),
            Self::NetstatFixed => answered(EndedBy::DrainTime),
            Self::Retries => Expected { executions: 2, ..answered(EndedBy::DrainTime) },
            Self::Laststream | Self::NativeSidecar => answered(EndedBy::Drained),
        }
    }
}
