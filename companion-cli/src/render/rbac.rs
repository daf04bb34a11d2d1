//! The rights that each verb over many pods needs, and no others. `render rbac` writes them.

use clap::ValueEnum;

use super::{File, Rendered};
use crate::base::yaml::{self, List, Map};

/// The beginning of the file, which is not rendered from a policy.
pub(super) const MARK: &str = "Rendered by `laststream render rbac`";

/// A verb over many pods.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, ValueEnum)]
pub enum Verb {
    /// `laststream status`.
    Status,
    /// `laststream streams`.
    Streams,
    /// `laststream rollout`.
    Rollout,
    /// `laststream drain --node --dry-run`.
    Drain,
    /// `laststream deletion-cost`.
    DeletionCost,
    /// `--events` of the others.
    Events,
}

/// A right: API group, resource, verbs, and its reason.
type Right = (&'static str, &'static str, &'static [&'static str], &'static str);

const LIST: Right = ("", "pods", &["list"], "Which pods there are.");
const STATS: Right =
    ("", "pods/proxy", &["get"], "The statistics of a pod, through the API server's proxy.");
const GATE: Right = (
    "",
    "pods/portforward",
    &["get", "create"],
    "The gate, which listens on the pod's loopback interface. Kubernetes asks for `get` up to \
     1.34, and can ask for `create` from 1.35 on.",
);

impl Verb {
    fn rights(self) -> &'static [Right] {
        match self {
            Self::Status | Self::Streams => &[LIST, STATS, GATE],
            Self::Drain => &[
                LIST,
                STATS,
                GATE,
                ("policy", "poddisruptionbudgets", &["list"], "Which evictions are refused."),
            ],
            Self::Rollout => &[
                LIST,
                GATE,
                (
                    "apps",
                    "deployments",
                    &["get"],
                    "How far the rollout is, in this kind and the next ones.",
                ),
                ("apps", "statefulsets", &["get"], ""),
                ("apps", "daemonsets", &["get"], ""),
            ],
            Self::DeletionCost => &[
                LIST,
                STATS,
                GATE,
                ("", "pods", &["patch"], "The annotation that a scale-down reads."),
            ],
            Self::Events => &[("", "events", &["create"], "Drains that are held or expired.")],
        }
    }
}

/// The namespace of the rights, and the role's name.
#[derive(Debug, Clone, Copy)]
pub struct Place<'a> {
    /// One namespace; without it the whole cluster.
    pub namespace: Option<&'a str>,
    /// The name of the role.
    pub name: &'a str,
}

/// A Role or ClusterRole with the rights of these verbs.
#[must_use]
pub fn render(verbs: &[Verb], place: Place<'_>) -> Rendered {
    let about = [format!("{MARK}: the least rights of the verbs that were named."), binding(place)];
    let text = yaml::write(&about, &[role(verbs, place)]);
    let file = File { name: "rbac.yaml".to_owned(), text, applies: true };
    vec![file].into()
}

fn binding(place: Place<'_>) -> String {
    let name = place.name;
    match place.namespace {
        Some(namespace) => format!(
            "Bind it to a user or a service account: `kubectl create rolebinding {name} \
             --namespace {namespace} --role {name} --user NAME`."
        ),
        None => format!(
            "Bind it to a user or a service account: `kubectl create clusterrolebinding {name} \
             --clusterrole {name} --user NAME`."
        ),
    }
}

fn role(verbs: &[Verb], place: Place<'_>) -> Map {
    let mut verbs = verbs.to_vec();
    verbs.sort_unstable();
    verbs.dedup();
    let mut rights: Vec<Right> = Vec::new();
    for right in verbs.iter().flat_map(|verb| verb.rights()) {
        if !rights.contains(right) {
            rights.push(*right);
        }
    }
    let rules = rights.iter().fold(List::new(), |rules, (group, resource, verbs, why)| {
        let verbs = verbs.iter().fold(List::new(), |list, verb| list.item(*verb));
        let rule = Map::of("apiGroups", List::of(*group))
            .with("resources", List::of(*resource))
            .with("verbs", verbs);
        if why.is_empty() { rules.item(rule) } else { rules.note(*why).item(rule) }
    });
    let kind = if place.namespace.is_some() { "Role" } else { "ClusterRole" };
    let metadata =
        Map::of("name", place.name).with_some("namespace", place.namespace.map(str::to_owned));
    Map::of("apiVersion", "rbac.authorization.k8s.io/v1")
        .with("kind", kind)
        .with("metadata", metadata)
        .with("rules", rules)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn role(verbs: &[Verb], namespace: Option<&str>) -> serde_json::Value {
        let rendered = render(verbs, Place { namespace, name: "laststream" });
        serde_saphyr::from_str(&rendered.files[0].text).unwrap()
    }

    #[test]
    fn verbs_share_rights_and_bring_their_own() {
        let role = role(&[Verb::Rollout, Verb::Status, Verb::Status], Some("shop"));
        assert_eq!(
            (role["kind"].as_str(), role["metadata"]["namespace"].as_str()),
            (Some("Role"), Some("shop"))
        );
        let rules = role["rules"].as_array().unwrap();
        let resources: Vec<_> = rules.iter().map(|rule| rule["resources"][0].as_str()).collect();
        let expected =
            ["pods", "pods/proxy", "pods/portforward", "deployments", "statefulsets", "daemonsets"];
        assert_eq!(resources, expected.map(Some));
    }

    #[test]
    fn a_rollout_asks_gates_and_no_statistics() {
        let text = role(&[Verb::Rollout], None).to_string();
        assert!(!text.contains("pods/proxy") && text.contains("pods/portforward"), "{text}");
    }

    #[test]
    fn a_node_drain_alone_reads_budgets() {
        let is_of = |verb| role(&[verb], None).to_string().contains("poddisruptionbudgets");
        assert!(is_of(Verb::Drain) && !is_of(Verb::Status));
    }

    #[test]
    fn rights_without_a_namespace_are_a_cluster_role() {
        let role = role(&[Verb::Events], None);
        assert_eq!(role["kind"], "ClusterRole");
        assert_eq!(role["metadata"]["namespace"], serde_json::Value::Null);
        assert_eq!(role["rules"][0]["verbs"][0], "create");
    }
}
