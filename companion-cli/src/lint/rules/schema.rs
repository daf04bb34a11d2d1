//! LS006 to LS009: whether the API server accepts an object. The verdicts are made in `lint::crds`.

use crate::lint::crds::Fault;
use crate::lint::finding::{Found, Rule, Severity};
use crate::lint::given::Given;

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
            strict validation, such as older GitOps tools, drop the field without a word.",
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

fn unknown_kind<'g>(given: &'g Given, found: &mut Found<'g>) {
    report(Fault::UnknownKind, given, found);
}

fn unknown_field<'g>(given: &'g Given, found: &mut Found<'g>) {
    report(Fault::UnknownField, given, found);
}

fn wrong_value<'g>(given: &'g Given, found: &mut Found<'g>) {
    report(Fault::WrongValue, given, found);
}

fn broken_rule<'g>(given: &'g Given, found: &mut Found<'g>) {
    report(Fault::Rule, given, found);
}

fn report<'g>(fault: Fault, given: &'g Given, found: &mut Found<'g>) {
    given.violations(fault).for_each(|(node, message)| found.at(node, message));
}
