//! The ways of stopping a pod that are compared, and the expected result of each. The hooks with
//! netstat come from <https://github.com/istio/istio/issues/7136>.

use serde::Serialize;
use strum::{IntoStaticStr, VariantArray};

/// One way of stopping a pod.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, IntoStaticStr, VariantArray)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case")]
pub enum Lane {
    /// Istio as it comes.
    Nothing,
    /// EXIT_ON_ZERO_ACTIVE_CONNECTIONS.
    ExitOnZero,
    /// The first netstat hook.
    Netstat,
    /// The netstat hook that knows of the agent.
    NetstatFixed,
    /// Retries at the gateway.
    Retries,
    /// The gate and the counters of laststream.
    Laststream,
}

/// The condition on which the agent ends Envoy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum AgentExit {
    /// `terminationDrainDuration` after SIGTERM.
    AfterDrainTime,
    /// EXIT_ON_ZERO_ACTIVE_CONNECTIONS.
    OnZeroConnections,
}

/// The reason for the end of the pod's proxy.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum EndedBy {
    /// Its agent, a fixed time after SIGTERM.
    DrainTime,
    /// Its agent, when it saw no connection.
    ZeroConnections,
    /// Its agent, at once at SIGTERM, because the gate had made its last call to the agent.
    Gate,
    /// Kubelet, with SIGKILL.
    Sigkill,
    /// The proxy ended by itself.
    Itself,
    /// The proxy still ran when the demo ended.
    StillRunning,
}

impl EndedBy {
    pub(super) fn words(self) -> &'static str {
        match self {
            Self::DrainTime => "its agent, a fixed time after SIGTERM",
            Self::ZeroConnections => "its agent, which saw no connection",
            Self::Gate => "its agent, because the gate was open",
            Self::Sigkill => "SIGKILL",
            Self::Itself => "itself",
            Self::StillRunning => "nothing (it still runs)",
        }
    }
}

/// The expected result of a lane.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Expected {
    pub(super) lost: bool,
    pub(super) executions: usize,
    pub(super) ended_by: EndedBy,
}

impl Lane {
    /// All lanes, in the order in which they are shown.
    pub const ALL: &[Self] = Self::VARIANTS;

    /// Its name, of at most 12 characters.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Nothing => "nothing",
            Self::ExitOnZero => "exit on zero",
            Self::Netstat => "netstat",
            Self::NetstatFixed => "netstat, 2nd",
            Self::Retries => "retries",
            Self::Laststream => "laststream",
        }
    }

    /// The description of the setup.
    #[must_use]
    pub fn about(self) -> &'static str {
        match self {
            Self::Nothing => {
                "Istio as it comes: no hook, the sidecar drains for a fixed time after SIGTERM"
            }
            Self::ExitOnZero => {
                "EXIT_ON_ZERO_ACTIVE_CONNECTIONS: the sidecar stays until it has no connection"
            }
            Self::Netstat => {
                "preStop: while [ $(netstat -plunt | grep tcp | grep -v envoy | wc -l) -ne 0 ]; do \
                    sleep 1; done"
            }
            Self::NetstatFixed => "preStop: the same with egrep -v 'envoy|pilot-agent'",
            Self::Retries => {
                "no hook; the gateway repeats broken requests on another pod (retryOn: reset)"
            }
            Self::Laststream => {
                "laststream counts streams in the sidecar; preStop: pilot-agent wait --url \
                    …/prestop"
            }
        }
    }

    pub(super) fn key(self) -> &'static str {
        self.into()
    }

    pub(super) fn pods(self) -> usize {
        if self == Self::Retries { 2 } else { 1 }
    }

    pub(super) fn agent_exit(self) -> AgentExit {
        match self {
            Self::ExitOnZero => AgentExit::OnZeroConnections,
            _ => AgentExit::AfterDrainTime,
        }
    }

    pub(super) fn expected(self) -> Expected {
        let answered = |ended_by| Expected { lost: false, executions: 1, ended_by };
        match self {
            Self::Nothing => Expected { lost: true, ..answered(EndedBy::DrainTime) },
            Self::ExitOnZero | Self::Netstat => answered(EndedBy::Sigkill),
            Self::NetstatFixed => answered(EndedBy::DrainTime),
            Self::Retries => Expected { executions: 2, ..answered(EndedBy::DrainTime) },
            Self::Laststream => answered(EndedBy::Gate),
        }
    }
}
