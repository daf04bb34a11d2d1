//! LS620: streams that the gate should end by kind.

use crate::finding::{Checks, Findings};
use crate::inputs::Inputs;
use crate::modules::{counters, gates};

pub(super) const CHECKS: Checks = &[("LS620", ends_without_kinds)];

fn ends_without_kinds<'g>(inputs: &'g Inputs, findings: &mut Findings<'g>) {
    for (gate, wire) in gates(inputs).filter(|(_, wire)| wire.end.is_some()) {
        for (counter, scope) in counters(inputs) {
            let keeps_kinds = counter
                .wire()
                .and_then(|wire| wire.count.as_ref())
                .is_some_and(|count| count.kinds);
            if !keeps_kinds && wire.scopes.contains(&scope) && gate.may_meet(counter) {
                findings.at(
                    counter.text().unwrap_or(counter.plugin),
                    format!("the gate `{}` is to end streams of this counter", gate.name()),
                );
            }
        }
    }
}
