//! LS705 to LS718: the effects of a change in Envoy; only with `lint --change`.

use crate::{Checks, Findings, Inputs};

pub(crate) const CHECKS: Checks = &[
    ("LS705", report),
    ("LS714", report),
    ("LS715", report),
    ("LS716", report),
    ("LS717", report),
    ("LS718", report),
];

/// Reports the parts of the change whose effect is the rule's.
fn report<'g>(inputs: &'g Inputs, findings: &mut Findings<'g>) {
    for part in inputs.changes.iter().filter(|part| part.effect.code() == findings.rule.code) {
        findings.at(part.node(inputs), part.message.clone());
    }
}
