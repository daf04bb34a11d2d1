//! LS705 to LS719: the effects of a change in Envoy; only with `lint --change`.

use crate::change::Effect;
use crate::finding::{Checks, Findings};
use crate::inputs::Inputs;

pub(crate) const CHECKS: Checks = &[
    ("LS705", |inputs, findings| report(Effect::ListenerPatch, inputs, findings)),
    ("LS706", |inputs, findings| report(Effect::ChainPatch, inputs, findings)),
    ("LS707", |inputs, findings| report(Effect::Authorization, inputs, findings)),
    ("LS707", |inputs, findings| report(Effect::Tls, inputs, findings)),
    ("LS707", |inputs, findings| report(Effect::Telemetry, inputs, findings)),
    ("LS710", |inputs, findings| report(Effect::WasmPlace, inputs, findings)),
    ("LS711", |inputs, findings| report(Effect::Listeners, inputs, findings)),
    ("LS712", |inputs, findings| report(Effect::TcpRoutes, inputs, findings)),
    ("LS713", |inputs, findings| report(Effect::Mesh, inputs, findings)),
    ("LS714", |inputs, findings| report(Effect::NothingDrains, inputs, findings)),
    ("LS715", |inputs, findings| report(Effect::NextStart, inputs, findings)),
    ("LS716", |inputs, findings| report(Effect::WaypointRoutes, inputs, findings)),
    ("LS717", |inputs, findings| report(Effect::GatewayFilters, inputs, findings)),
    ("LS718", |inputs, findings| report(Effect::FirstFilter, inputs, findings)),
    ("LS719", |inputs, findings| report(Effect::PodsReplaced, inputs, findings)),
];

fn report<'g>(effect: Effect, inputs: &'g Inputs, findings: &mut Findings<'g>) {
    for part in inputs.changes.iter().filter(|part| part.effect == effect) {
        findings.at(part.node(inputs), part.message.clone());
    }
}
