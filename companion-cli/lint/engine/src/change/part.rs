//! A part of a change: a node, and its effect in Envoy.

use crate::{Node, Texts};

/// The effect of a part of a change in Envoy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Effect {
    /// The part is in listeners or filter chains, which Envoy replaces.
    Replaces,
    /// The same, and only streams that come in are on them.
    ReplacesInbound,
    /// TLS settings and their matches are part of the inbound filter chains of sidecars.
    Tls,
    /// The part reaches Envoy by discovery and replaces nothing: routes, clusters, configurations
    /// of filters.
    NothingDrains,
    /// Routes for HTTP come by discovery, except on waypoints, where they are part of the filter
    /// chains.
    WaypointRoutes,
    /// The part takes effect at the next start of a pod.
    NextStart,
    /// Envoy Gateway writes the part into filters or settings of the filter chains.
    GatewayFilters,
    /// Envoy Gateway adds a filter for the first object that needs it, and removes it after the
    /// last one.
    FirstFilter,
}

impl Effect {
    pub(super) fn replaces(self) -> bool {
        !matches!(self, Self::NothingDrains | Self::NextStart)
    }

    /// The code of the rule that reports it.
    pub(crate) fn code(self) -> &'static str {
        match self {
            Self::Replaces | Self::ReplacesInbound | Self::Tls => "LS705",
            Self::NothingDrains => "LS714",
            Self::NextStart => "LS715",
            Self::WaypointRoutes => "LS716",
            Self::GatewayFilters => "LS717",
            Self::FirstFilter => "LS718",
        }
    }
}

/// An effect, the node that causes it, and a description of the change.
pub(super) type EffectAt<'g> = (Effect, Node<'g>, String);

#[derive(Debug)]
pub(crate) struct Part {
    pub(crate) effect: Effect,
    tree: u32,
    id: u32,
    /// The change, its proxies, and the time that their streams have left.
    pub(crate) message: String,
}

impl Part {
    pub(super) fn new(effect: Effect, node: Node<'_>, message: String) -> Self {
        Self { effect, tree: node.tree, id: node.id, message }
    }

    pub(crate) fn node<'g>(&self, texts: &'g Texts) -> Node<'g> {
        texts.node(self.tree, self.id)
    }
}
