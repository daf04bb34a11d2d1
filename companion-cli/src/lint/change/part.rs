//! A part of a change: a node, and what Envoy does when it gets it.

use crate::lint::node::Node;
use crate::lint::texts::Texts;

/// What Envoy does when it gets a part of a change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::lint) enum Effect {
    /// A patch on a listener replaces it.
    ListenerPatch,
    /// A patch on filter chains, or on filters in them, replaces the chains.
    ChainPatch,
    /// Filters for authorization and tokens stand in the chains.
    Authorization,
    /// TLS and its matches stand in the inbound chains.
    Tls,
    /// Access logs, metrics and traces stand in the chains.
    Telemetry,
    /// A Wasm filter comes, goes or moves, or Lua differs.
    WasmPlace,
    /// Ports, servers and hosts of listeners.
    Listeners,
    /// Routes for TCP and TLS stand in the chains.
    TcpRoutes,
    /// Settings of the mesh stand in all listeners.
    Mesh,
    /// It comes by discovery of its own: routes, clusters, configurations of filters.
    NothingDrains,
    /// Routes for HTTP come by discovery, but stand in the chains of waypoints.
    WaypointRoutes,
    /// It counts from the next start of a pod on.
    NextStart,
}

impl Effect {
    pub(super) fn replaces(self) -> bool {
        !matches!(self, Self::NothingDrains | Self::NextStart)
    }
}

/// A part of a change.
#[derive(Debug)]
pub(in crate::lint) struct Part {
    pub(in crate::lint) effect: Effect,
    tree: u32,
    id: u32,
    /// What changed, on which proxies, and how long streams then have.
    pub(in crate::lint) message: String,
}

impl Part {
    pub(super) fn new(effect: Effect, node: Node<'_>, message: String) -> Self {
        Self { effect, tree: node.tree, id: node.id, message }
    }

    pub(in crate::lint) fn node<'g>(&self, texts: &'g Texts) -> Node<'g> {
        Node { texts, tree: self.tree, id: self.id }
    }
}
