//! The facts about a cluster that are in none of its objects: its running pods, the answers of
//! their gates, and what the API server refused.

use std::collections::BTreeMap;

use manifest_lint::Inputs;
pub use manifest_lint::cluster_object::ClusterObject;

/// The object that stands for the rights of `lint`.
pub(super) fn rights() -> ClusterObject {
    let name = "laststream-linter".to_owned();
    ClusterObject { kind: "ClusterRole".to_owned(), namespace: None, name, made: None }
}

/// The facts about a cluster that are in none of its objects.
#[derive(Debug, Clone, Default)]
pub(super) struct Live {
    /// The workloads with pods that run.
    pub(super) workloads: Vec<Workload>,
    /// What the API server refused, with the way out.
    pub(super) refused: Vec<String>,
}

impl Live {
    /// Those that were handed in with the objects; none with files.
    pub(super) fn of(inputs: &Inputs) -> Option<&Self> {
        inputs.beside.downcast_ref()
    }

    /// The workloads with pods that run.
    pub(super) fn workloads(inputs: &Inputs) -> impl Iterator<Item = &Workload> {
        Self::of(inputs).into_iter().flat_map(|live| &live.workloads)
    }
}

/// The running pods of one object.
#[derive(Debug, Clone)]
pub(super) struct Workload {
    /// The object, as among the sources.
    pub(super) object: ClusterObject,
    /// What its template says; none for a pod without one.
    pub(super) template: Option<PodSettings>,
    /// Its pods, the newest first.
    pub(super) pods: Vec<LivePod>,
}

/// A running pod.
#[derive(Debug, Clone)]
pub(super) struct LivePod {
    pub(super) name: String,
    pub(super) settings: PodSettings,
    /// The answer of its gate.
    pub(super) gate: GateAnswer,
}

/// The settings of a pod that decide how its streams end.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct PodSettings {
    /// The command of the proxy's stop hook, or the hook itself if it has no command.
    pub(crate) hook: Option<String>,
    /// The grace period, in seconds.
    pub(crate) grace: u64,
    /// The annotations of Istio and of laststream.
    pub(crate) annotations: BTreeMap<String, String>,
    /// The image of the volume with the module.
    pub(crate) module: Option<String>,
}

impl PodSettings {
    /// Whether the stop hook asks a gate.
    pub(crate) fn asks_gate(&self) -> bool {
        self.hook.as_deref().is_some_and(|hook| hook.contains("prestop"))
    }

    /// What a pod has in another way than this template, if its stop hook should be `hook`.
    pub(crate) fn differences(&self, hook: Option<&String>, pod: &Self) -> Option<String> {
        let mut all = Vec::new();
        match (hook, &pod.hook) {
            (Some(_), None) => all.push("no stop hook".to_owned()),
            (Some(wanted), Some(own)) if wanted != own => all.push("another stop hook".to_owned()),
            _ => {}
        }
        if self.grace != pod.grace {
            all.push(format!("{} s of grace instead of {} s", pod.grace, self.grace));
        }
        let annotations = self.annotations.iter();
        let differences =
            annotations.filter(|(name, text)| pod.annotations.get(*name) != Some(text));
        all.extend(differences.map(|(name, _)| format!("another annotation `{name}`")));
        if self.module.is_some() && self.module != pod.module {
            all.push("another image of the module".to_owned());
        }
        (!all.is_empty()).then(|| all.join(", "))
    }

    /// Whether there may be a gate: also one that needs no hook exports the statistics that it
    /// reads.
    pub(crate) fn may_have_gate(&self) -> bool {
        let suffixes = self.annotations.get("sidecar.istio.io/statsInclusionSuffixes");
        self.expects_gate() || suffixes.is_some_and(|list| list.contains("downstream_rq_active"))
    }

    /// Whether the hook or an annotation says that there is a gate.
    pub(crate) fn expects_gate(&self) -> bool {
        self.asks_gate() || self.annotations.contains_key("laststream.io/gate-port")
    }
}

/// The answer of a pod's gate.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum GateAnswer {
    /// It was not asked, because nothing says that there is one, or its proxy does not run.
    Unasked,
    /// The pod could not be asked, with the reason.
    Silent(String),
    /// The proxy answers and has no gate, with what it has instead.
    Missing(String),
    /// The gate answered.
    Here {
        /// The word for how far its count can be believed.
        count: String,
        /// Why the count is not exact.
        why: Option<String>,
        version: Option<String>,
    },
}
