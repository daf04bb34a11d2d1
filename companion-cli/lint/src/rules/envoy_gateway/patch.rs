//! The patch of an EnvoyProxy's Deployment: LS592 to LS553.

use super::{hook_of, is_json_merge, placed, pod_of};
use crate::rules::grace::deadlines::longest;
use laststream_policy::KUBELET;
use manifest_lint::finding::Findings;
use manifest_lint::inputs::Inputs;
use manifest_lint::node::Node;
use manifest_lint::objects::of_kind;
use manifest_lint::pods::Hook;

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

pub(super) fn grace_below_deadline<'g>(inputs: &'g Inputs, findings: &mut Findings<'g>) {
    for placed in placed(inputs) {
        let grace = pod_of(placed.proxy).and_then(|pod| pod.get("terminationGracePeriodSeconds"));
        // Without one, Envoy Gateway sets its drainTimeout and 300 s more.
        let Some((node, seconds)) = grace.and_then(|node| Some((node, node.number()?))) else {
            continue;
        };
        let least = placed.gate.deadline_ms.saturating_add(KUBELET.millis()).div_ceil(1000);
        if seconds < least {
            findings.at(node, format!("{seconds} s of grace: write {least} or more"));
        }
    }
}

pub(super) fn hook_below_deadline<'g>(inputs: &'g Inputs, findings: &mut Findings<'g>) {
    for placed in placed(inputs) {
        let Some(node) = hook_of(placed.proxy) else { continue };
        let hook = Hook { node };
        let deadline = placed.gate.deadline_ms;
        let wait = longest(hook).filter(|(seconds, _)| seconds.saturating_mul(1000) < deadline);
        if let Some((seconds, place)) = wait {
            let deadline = deadline.div_ceil(1000);
            findings.at(place, format!("the hook waits {seconds} s, the gate up to {deadline} s"));
        }
    }
}
