//! LS620: streams that the gate should end by kind.

use crate::finding::{Findings, Rule, Severity};
use crate::inputs::Inputs;
use crate::modules::{counters, gates};

pub(super) const RULES: &[Rule] = &[Rule {
    code: "LS620",
    severity: Severity::Error,
    title: "the gate should end streams by kind, but the counter keeps no kinds",
    why: "Each stream is ended by its counter, and by its kind. A counter without `count.kinds` \
        knows no kinds, so nothing is ended: at the deadline Envoy cuts all streams at once.",
    fix: "Write `\"count\": {\"kinds\": true}` into the counter's configuration; `laststream \
        render` does it for a policy with a section `end`.",
    check: ends_without_kinds,
}];

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
