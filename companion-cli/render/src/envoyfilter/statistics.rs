//! Envoy's own count without a restart of the pods: a matcher for statistics in the listeners.

use super::patch::{context_of, object, patch, takes_envoyfilters};
use crate::files::{File, objects};
use laststream_base::yaml::Map;
use laststream_policy::module_json::scopes;
use laststream_policy::{Policy, PolicyProblem};

const MATCHER: &str = "type.googleapis.com/envoy.config.metrics.v3.StatsMatcher";

/// The proxies of Istio 1.30 and newer: Envoy 1.38 is the first that reads the matcher.
const READS: &str = r"^1\.([3-9][0-9]|[1-9][0-9][0-9]+)([^0-9]|$)";

const WHY: &str = "In place of the bootstrap's matcher, for the connection managers of these \
    listeners: nothing is left out, because a list would have to name Istio's statistics and the \
    module's, too.";

/// A separate EnvoyFilter, because it is of use only until the pods have the annotations of
/// `render proxy-config`.
pub(crate) fn render(policy: &Policy) -> Result<File, PolicyProblem> {
    takes_envoyfilters(policy)?;
    if policy.gate_port.is_none() {
        return Err(PolicyProblem::new("gate", "is off, and only the gate reads these statistics"));
    }
    let matcher = Map::of("@type", MATCHER).with("reject_all", false);
    let typed = Map::of("typed_filter_metadata", Map::of("envoy.stats_matcher", matcher));
    let patches = scopes(policy).into_iter().map(|(scope, _)| {
        let matching =
            Map::of("context", context_of(scope)).with("proxy", Map::of("proxyVersion", READS));
        let listener = Map::of("metadata", typed.clone());
        (WHY, patch("LISTENER", Some(matching), "MERGE", listener))
    });
    let name = format!("{}-statistics", policy.name);
    let filter = object(policy, &name, None, patches);
    let about = [
        "Makes an `assumed` count exact on proxies that run, of Istio 1.30 and newer. The \
            annotations of `render proxy-config` do the same from a pod's next start on: delete \
            this when all pods have them.",
        "Istio replaces the listeners once, now and when it is deleted: streams that are older \
            than the drain time are cut (`laststream lint --change` shows them). Until then each \
            connection manager exports about 200 statistics.",
    ];
    Ok(objects("statistics.yaml", &about.map(String::from), &[filter]))
}
