//! The ways of stopping a gateway that are compared, and the expected result of each. The hook with
//! netstat comes from <https://github.com/istio/istio/issues/7136>.

use std::time::Duration;

use serde::Serialize;
use strum::{IntoStaticStr, VariantArray};

use super::times::Times;

/// One way of stopping a gateway's pod.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, IntoStaticStr, VariantArray)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case")]
pub enum Lane {
    Laststream,
    /// A gateway as Istio's chart installs it.
    AsInstalled,
    /// A `terminationDrainDuration` that is long enough.
    DrainDuration,
    ExitOnZero,
    Sleep,
    Netstat,
    Retries,
}

/// The reason for the end of the pod's Envoy.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum EndedBy {
    /// Its agent, a fixed time after SIGTERM.
    DrainTime,
    /// Its agent, when it saw no connection.
    ZeroConnections,
    Sigkill,
    /// Envoy itself, at a gate's call.
    Itself,
    /// Envoy still ran when the demo ended.
    StillRunning,
}

impl EndedBy {
    pub(super) fn words(self) -> &'static str {
        match self {
            Self::DrainTime => "its agent, a fixed time after SIGTERM",
            Self::ZeroConnections => "its agent, which saw no connection",
            Self::Sigkill => "SIGKILL",
            Self::Itself => "itself",
            Self::StillRunning => "nothing (it still runs)",
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Expected {
    pub(super) is_request_lost: bool,
    pub(super) is_websocket_lost: bool,
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
            Self::AsInstalled => "the chart as installed",
            Self::DrainDuration => "terminationDrainDuration",
            Self::ExitOnZero => "exit on zero connections",
            Self::Sleep => "sleep hook",
            Self::Netstat => "netstat hook",
            Self::Retries => "retries at the caller",
        }
    }

    pub fn about(self) -> &'static str {
        match self {
            Self::Laststream => {
                "the gate counts streams, and ends Envoy after the last one; \
                    terminationDrainDuration: 18s is only its deadline"
            }
            Self::AsInstalled => "Istio's agent ends Envoy 5 s after SIGTERM",
            Self::DrainDuration => "terminationDrainDuration: 18s, and nothing else",
            Self::ExitOnZero => {
                "EXIT_ON_ZERO_ACTIVE_CONNECTIONS: the agent waits until Envoy has no connection"
            }
            Self::Sleep => "preStop: sleep 6; then the agent takes its 5 s",
            Self::Netstat => {
                "preStop: while [ $(netstat -plunt | grep tcp | grep -v envoy | wc -l) -ne 0 ]; do \
                    sleep 1; done"
            }
            Self::Retries => {
                "no hook; the caller repeats broken requests on another pod (retryOn: reset)"
            }
        }
    }

    pub(super) fn key(self) -> &'static str {
        self.into()
    }

    pub(super) fn pods(self) -> usize {
        if self == Self::Retries { 2 } else { 1 }
    }

    /// The `terminationDrainDuration` of the pod.
    pub(super) fn drain_time(self, times: &Times) -> Duration {
        match self {
            Self::Laststream | Self::DrainDuration => times.long_drain,
            _ => times.agent,
        }
    }

    pub(super) fn expected(self) -> Expected {
        let ends = |[is_request_lost, is_websocket_lost]: [bool; 2], ended_by| Expected {
            is_request_lost,
            is_websocket_lost,
            executions: if self == Self::Retries { 2 } else { 1 },
            ended_by,
        };
        match self {
            Self::Laststream => ends([false, false], EndedBy::Itself),
            Self::AsInstalled => ends([true, true], EndedBy::DrainTime),
            Self::DrainDuration => ends([false, false], EndedBy::DrainTime),
            Self::ExitOnZero | Self::Netstat => ends([false, false], EndedBy::Sigkill),
            Self::Sleep | Self::Retries => ends([false, true], EndedBy::DrainTime),
        }
    }
}
