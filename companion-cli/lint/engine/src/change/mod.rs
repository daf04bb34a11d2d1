//! The effects of a change of manifests on Envoy's listeners, computed from two sets of files. The
//! rules LS705 to LS718 report them.

mod cut;
mod effects;
mod envoy_gateway;
mod pairs;
pub mod part;
mod proxies;
mod reached;
mod running;
mod waypoints;

use crate::Inputs;
pub use cut::{Change, CutStreams};
use manifest_text::time_span::TimeSpan;
pub use pairs::same;
pub(crate) use part::Effect;
use part::Part;
use reached::Reached;
pub use running::{ProxyRole, ProxyStreams, RunningProxy};

/// The drain time of Envoy Gateway's proxies without a `drainTimeout`.
const GATEWAY_DRAIN: TimeSpan = TimeSpan::seconds(60);

const ON_WAYPOINTS: &str = "; on a waypoint the routes stand in the chain: it is replaced";

/// All parts of the change from the old files to the new ones, and the proxies that each reaches.
fn parts(inputs: &Inputs) -> (Vec<Part>, Vec<Reached>) {
    let (mut parts, mut all_reached) = (Vec::new(), Vec::new());
    for pair in pairs::changed(inputs) {
        let object = pair.latest;
        for (effect, node, what) in effects::of(&pair) {
            let mut reached = Reached::of(object, effect, node, inputs);
            let named = reached.describe(node, inputs);
            let on_waypoints = if effect == Effect::WaypointRoutes { ON_WAYPOINTS } else { "" };
            let time = if !effect.replaces() {
                String::new()
            } else if matches!(effect, Effect::GatewayFilters | Effect::FirstFilter) {
                proxies::time_at_envoy_gateway(inputs)
            } else {
                reached.proxies.time_left(inputs)
            };
            let message = format!("{what}: {named}{on_waypoints}{time}");
            reached.proxies.selector.targets = Vec::new(); // only the message needs them
            parts.push(Part::new(effect, node, message));
            all_reached.push(reached);
        }
    }
    (parts, all_reached)
}
