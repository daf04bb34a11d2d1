//! The effects of a change of manifests on Envoy's listeners, computed from two sets of files. The
//! rules LS705 to LS719 report them.

mod cut;
mod effects;
mod envoy_gateway;
mod pairs;
pub(super) mod part;
mod proxies;
mod reached;
mod waypoints;

use super::inputs::Inputs;
pub use cut::{Change, CutStreams};
use laststream_base::time_span::TimeSpan;
pub(crate) use pairs::same;
pub(super) use part::Effect;
use part::Part;
use reached::{ENVOY_GATEWAY, Reached};
pub use reached::{ProxyRole, ProxyStreams, RunningProxy};

/// The drain time of Envoy Gateway's proxies without a `drainTimeout`.
const GATEWAY_DRAIN: TimeSpan = TimeSpan::seconds(60);

/// All parts of the change from the old files to the new ones.
pub(super) fn parts(inputs: &Inputs) -> Vec<Part> {
    let mut parts = Vec::new();
    for pair in pairs::changed(inputs) {
        for (effect, node, what) in effects::of(&pair) {
            let proxies = proxies::Proxies::of(&pair);
            let reached = Reached::of(&pair, &proxies, effect, node, inputs);
            let named = proxies.describe(node, inputs);
            let named = reached.describe().filter(|_| !proxies.has_targets()).unwrap_or(named);
            let mut message = format!("{what}: {named}");
            if effect == Effect::WaypointRoutes {
                message.push_str("; on a waypoint the routes stand in the chain: it is replaced");
            }
            if effect.replaces() {
                message.push_str("; ");
                let is_of_envoy_gateway =
                    effect == Effect::FirstFilter || pairs::group(&pair) == ENVOY_GATEWAY;
                let time = if is_of_envoy_gateway {
                    proxies::time_at_envoy_gateway(inputs)
                } else {
                    proxies.time_left(inputs)
                };
                message.push_str(&time);
            }
            parts.push(Part::new(effect, node, message, reached));
        }
    }
    parts
}
