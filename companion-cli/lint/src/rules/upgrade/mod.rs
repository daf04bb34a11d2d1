//! LS907, LS915 and LS931: what an upgrade changes for modules and pods with a gate; only
//! with `lint --upgrade`. The engine has the other changes.

use manifest_lint::change::same;
use manifest_lint::rules::upgrade::Change;
use manifest_lint::upgrade::{ENVOY, ISTIO, KUBERNETES};
use manifest_lint::{Findings, Inputs};

use super::{delivery, grace};
use crate::modules::{Module, modules};

pub(crate) const CHANGES: &[Change] = &[
    ("LS907", ISTIO, Some((1, 31)), delivery::former_hosts),
    ("LS915", ENVOY, Some((1, 40)), equal_plugins),
    ("LS931", KUBERNETES, Some((1, 33)), grace::with_native_sidecar),
];

/// The most filters that are compared pair by pair.
const MOST_COMPARED: usize = 200;

fn equal_plugins<'g>(inputs: &'g Inputs, findings: &mut Findings<'g>) {
    let all: Vec<_> = modules(inputs).take(MOST_COMPARED).collect();
    for (index, one) in all.iter().enumerate() {
        let is_twin = |other: &&Module<'g>| {
            other.may_meet(*one) && same(Some(one.plugin), Some(other.plugin))
        };
        if let Some(other) = all.iter().take(index).find(is_twin) {
            let message = format!("the configuration is that of the filter `{}`", other.name());
            findings.at(one.plugin, message);
        }
    }
}
