//! LS63x: the frame filter, which ends WebSockets with a close frame.

use laststream_filter::config::wire::Role;

use crate::modules::{Module, modules, of_role};
use crate::users::uses;
use manifest_lint::{Checks, Findings, Inputs, Node, patch_of};

pub(super) const CHECKS: Checks =
    &[("LS631", own_chain), ("LS631", always_on), ("LS631", never_on)];

pub(super) fn frame_filters(inputs: &Inputs) -> impl Iterator<Item = Module<'_>> {
    of_role(inputs, Role::Websocket).map(|(module, _)| module)
}

/// Checks only filters of a mesh: the files do not show what the chain of a plain Envoy should
/// contain.
fn own_chain<'g>(inputs: &'g Inputs, findings: &mut Findings<'g>) {
    for module in modules(inputs) {
        for filter in uses(inputs, module) {
            let is_for_upgrades =
                filter.upwards().any(|node| node.key_text() == Some("upgrade_configs"));
            if is_for_upgrades && patch_of(filter).is_some() {
                findings.at(filter, format!("`{}` is in a chain for upgrades only", module.name()));
            }
        }
    }
}

fn always_on<'g>(inputs: &'g Inputs, findings: &mut Findings<'g>) {
    for module in frame_filters(inputs) {
        for filter in uses(inputs, module) {
            if !filter.field("disabled").is_some_and(Node::is_true) {
                findings.at(filter, format!("`{}` has no `disabled: true`", module.name()));
            }
        }
    }
}

fn never_on<'g>(inputs: &'g Inputs, findings: &mut Findings<'g>) {
    for module in frame_filters(inputs) {
        let is_on = inputs
            .keyed_field("typed_per_filter_config")
            .any(|filters| filters.entries().any(|(name, _)| name == module.name()));
        if !is_on {
            findings.at(module.filter(), format!("no route names `{}`", module.name()));
        }
    }
}
