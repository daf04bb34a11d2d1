//! The effects of a change of manifests on Envoy's listeners, computed from two sets of files. The
//! rules LS705 to LS716 report them.

mod effects;
mod pairs;
pub(super) mod part;
mod proxies;
mod waypoints;

use super::inputs::Inputs;
pub(crate) use pairs::same;
pub(super) use part::Effect;
use part::Part;

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
            parts.push(Part::new(effect, node, message));
        }
    }
    parts
}
