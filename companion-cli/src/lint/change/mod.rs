//! What a change of manifests does to Envoy's listeners: from two sets of files to effects. The
//! rules LS705 to LS716 report them.

mod effects;
mod pairs;
mod proxies;
mod waypoints;

use super::inputs::Inputs;
use super::node::Node;

/// What Envoy does when it gets a part of a change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Effect {
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
    fn replaces(self) -> bool {
        !matches!(self, Self::NothingDrains | Self::NextStart)
    }
}

/// A part of a change.
#[derive(Debug)]
pub(super) struct Part {
    pub(super) effect: Effect,
    tree: u32,
    id: u32,
    /// What changed, on which proxies, and how long streams then have.
    pub(super) message: String,
}

impl Part {
    pub(super) fn node<'g>(&self, inputs: &'g Inputs) -> Node<'g> {
        Node { texts: inputs, tree: self.tree, id: self.id }
    }
}

/// All parts of the change from the old files to the new ones.
pub(super) fn parts(inputs: &Inputs) -> Vec<Part> {
    let mut parts = Vec::new();
    for pair in pairs::changed(inputs) {
        for (effect, node, what) in effects::of(&pair) {
            let proxies = proxies::Proxies::of(&pair);
            let mut message = format!("{what}: {}", proxies.describe(node, inputs));
            if effect == Effect::WaypointRoutes {
                message.push_str("; on a waypoint the routes stand in the chain: it is replaced");
            }
            if effect.replaces() {
                message.push_str("; ");
                message.push_str(&proxies.time_left(inputs));
            }
            parts.push(Part { effect, tree: node.tree, id: node.id, message });
        }
    }
    parts
}
