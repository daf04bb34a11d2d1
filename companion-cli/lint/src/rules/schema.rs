//! LS006 to LS009: objects that the API server refuses. The verdicts come from `lint::crds`.

use crate::crds::Fault;
use crate::finding::{Findings, Rule, Severity};
use crate::inputs::Inputs;

pub(super) const RULES: &[Rule] = &[
    Rule {
        code: "LS006",
        severity: Severity::Error,
        title: "the API server does not know this kind of object",
        why: "The CRD has no such kind, or does not serve it in this version: kubectl ends with \
            `no matches for kind`, and nothing is applied.",
        fix: "Correct `kind` and `apiVersion`. For another version of the CRDs than the built-in \
            ones, name them: `--istio VERSION` or `--crds FILE`.",
        check: unknown_kind,
    },
    Rule {
        code: "LS007",
        severity: Severity::Error,
        title: "the object's CRD has no such field",
        why: "kubectl refuses the object (`strict decoding error: unknown field`). Clients without \
            strict validation, such as older GitOps tools, drop the field without an error.",
        fix: "Correct the name, or move the field to where it belongs. For another version of the \
            CRDs than the built-in ones, name them: `--istio VERSION` or `--crds FILE`.",
        check: unknown_field,
    },
    Rule {
        code: "LS008",
        severity: Severity::Error,
        title: "the object does not fit the schema of its CRD",
        why: "A value of another type, a missing field, a word that is not in the list: the API \
            server refuses the object, and what was there before stays.",
        fix: "Correct the value.",
        check: wrong_value,
    },
    Rule {
        code: "LS009",
        severity: Severity::Error,
        title: "the object breaks a validation rule of its CRD",
        why: "CRDs carry rules over several fields, written in CEL. The API server refuses an \
            object for which one does not hold.",
        fix: "Follow the rule's message.",
        check: broken_rule,
    },
];

fn unknown_kind<'g>(inputs: &'g Inputs, findings: &mut Findings<'g>) {
    report(Fault::UnknownKind, inputs, findings);
}

fn unknown_field<'g>(inputs: &'g Inputs, findings: &mut Findings<'g>) {
    report(Fault::UnknownField, inputs, findings);
}

fn wrong_value<'g>(inputs: &'g Inputs, findings: &mut Findings<'g>) {
    report(Fault::WrongValue, inputs, findings);
}

fn broken_rule<'g>(inputs: &'g Inputs, findings: &mut Findings<'g>) {
    report(Fault::Rule, inputs, findings);
}

fn report<'g>(fault: Fault, inputs: &'g Inputs, findings: &mut Findings<'g>) {
    inputs.violations(fault).for_each(|(node, message)| findings.at(node, message));
}
