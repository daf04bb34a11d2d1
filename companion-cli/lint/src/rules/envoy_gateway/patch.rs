//! The hook in the patch of an EnvoyProxy's Deployment: LS592.

use super::{hook_of, is_json_merge};
use manifest_lint::{Findings, Inputs, Node, of_kind};

/// The kind of Envoy Gateway's own hook.
const OWN: &str = "httpGet";
/// The kinds of hook.
const HOOK: &str = "exec httpGet sleep tcpSocket";

/// Whether a hook has an action.
pub(super) fn has_kind(hook: Node<'_>) -> bool {
    HOOK.split(' ').any(|kind| hook.get(kind).is_some())
}

pub(super) fn mixed_hook<'g>(inputs: &'g Inputs, findings: &mut Findings<'g>) {
    for proxy in of_kind(inputs, "EnvoyProxy") {
        let Some(hook) = hook_of(proxy) else { continue };
        if is_json_merge(proxy) {
            let directive = hook.get("$patch");
            let message = "`JSONMerge` does not know `$patch`: write `type: StrategicMerge`";
            directive.into_iter().for_each(|node| findings.at(node, message));
            continue;
        }
        let replaces = hook.text_of("$patch") == Some("replace");
        if !replaces && HOOK.split(' ').any(|kind| kind != OWN && hook.get(kind).is_some()) {
            let message = format!("Envoy Gateway's own `{OWN}` stays beside it");
            findings.at(hook.get(OWN).unwrap_or(hook), message);
        }
    }
}
