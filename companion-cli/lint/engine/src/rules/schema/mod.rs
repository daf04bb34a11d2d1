//! LS006 to LS009: objects that the API server refuses. The verdicts come from `lint::crds`.

use crate::crds::Fault;
use crate::{Checks, Findings, Inputs};

pub(crate) const CHECKS: Checks = &[
    ("LS006", |inputs, findings| report(Fault::UnknownKind, inputs, findings)),
    ("LS007", |inputs, findings| report(Fault::UnknownField, inputs, findings)),
    ("LS008", |inputs, findings| report(Fault::WrongValue, inputs, findings)),
    ("LS009", |inputs, findings| report(Fault::Rule, inputs, findings)),
];

fn report<'g>(fault: Fault, inputs: &'g Inputs, findings: &mut Findings<'g>) {
    for (node, message) in inputs.violations(fault) {
        match node.variable() {
            Some(_) if fault != Fault::UnknownField => findings.skipped.push(node),
            _ => findings.at(node, message),
        }
    }
}
