//! The clusters that a gate calls: LS415.

use laststream_filter::config::wire::Gate;

use crate::envoys::{clusters, whole_bootstraps};
use crate::finding::Findings;
use crate::inputs::Inputs;
use crate::modules::gates;
use crate::reach::Reach;

pub(super) fn missing_cluster<'g>(inputs: &'g Inputs, findings: &mut Findings<'g>) {
    for bootstrap in whole_bootstraps(inputs) {
        let Some(clusters) = clusters(bootstrap) else { continue };
        let reach = Reach::of(bootstrap);
        for (module, gate) in gates(inputs).filter(|(module, _)| *module.reach() == reach) {
            for (path, name) in called(&gate) {
                if !name.is_empty() && !clusters.contains(&name) {
                    let place = module.part_or_all(&["gate", path, "cluster"]);
                    findings.at(place, format!("no cluster has the name `{name}`"));
                }
            }
        }
    }
}

/// The fields of a gate that name a cluster, and the names. An empty one is none.
fn called(gate: &Gate) -> impl Iterator<Item = (&'static str, &str)> {
    let app = gate.app.as_ref().map(|app| ("app", &*app.cluster));
    let notify = gate.notify.as_ref().map(|notify| ("notify", &*notify.cluster));
    [("admin", &*gate.admin.cluster)].into_iter().chain(app).chain(notify)
}
