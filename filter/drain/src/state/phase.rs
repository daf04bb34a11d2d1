//! The phases of a drain.
//!
//! ```text
//! serving ── drain ──► draining ── both counts zero, quiet ──► drained
//!    ▲                    │ ▲ ◄──────── a stream begins ─────────┘ │
//!    │                    │ ├──── deadline ──────► expired ────────┤
//!    │                    │ └──── force ─────────► forced ─────────┤
//!    └────── cancel, or the drain has run out ─────────────────────┘
//! ```
//!
//! A `drained` drain expires at its deadline, too, if a hook has no proof of zero.

#[cfg(feature = "schema")]
use schemars::JsonSchema;
use serde::Serialize;
#[cfg(feature = "schema")]
use strum::IntoStaticStr;
use strum::{Display, VariantArray};

/// How far the drain is. The order is that of the numbers in the metric.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Display, VariantArray)]
#[cfg_attr(feature = "schema", derive(JsonSchema, IntoStaticStr))]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case")]
pub enum Phase {
    /// No drain was asked for.
    #[default]
    Serving,
    /// A drain was asked for, and streams are, or may be, in flight.
    Draining,
    /// The last stream has ended and stayed ended.
    Drained,
    /// The deadline came first.
    Expired,
    /// An operator opened the gate.
    Forced,
}

impl Phase {
    /// Whether the gate is open whatever is in flight.
    pub const fn is_unconditionally_open(self) -> bool {
        matches!(self, Self::Expired | Self::Forced)
    }

    /// Whether a drain goes on: the gate still evaluates the counts.
    pub const fn is_draining(self) -> bool {
        matches!(self, Self::Draining | Self::Drained)
    }

    /// Whether the gate was open at the last evaluation.
    pub const fn is_open(self) -> bool {
        matches!(self, Self::Drained | Self::Expired | Self::Forced)
    }
}
