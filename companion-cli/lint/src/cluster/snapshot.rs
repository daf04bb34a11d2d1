//! The objects of a cluster as `lint` judges them: a template for pods is shown as the newest pod
//! has it, after injection. They are judged all together, or namespace by namespace if they are too
//! many.

use std::collections::{BTreeSet, HashMap};

use laststream_base::istio::ROOT_NAMESPACE;
use laststream_base::yaml::tree::{MOST_NODES, Tree};
use manifest_lint::injected::as_written;
use manifest_lint::places::{self, place};
use manifest_lint::{Assume, ClusterObject, Inputs, SourceError, SourceFile};
use serde_json::{Value, json};

use super::running::{OwnedPods, RunningPods};
use crate::assess::assessed;
use crate::live::{GateAnswer, Live, PodSettings, Workload, rights};
use crate::{LINTER, Verdict};

/// How a snapshot is judged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Judged {
    ByRules,
    /// Only what the next stop of each proxy cuts.
    ForStops,
}

/// The objects and the running pods of a cluster.
#[derive(Debug, Default)]
pub struct Snapshot {
    /// The objects, each with the place of its findings.
    objects: Vec<(ClusterObject, Value)>,
    live: Live,
}

impl Snapshot {
    /// The answers of the gates are those by the UIDs of their pods. `refused`: what the API server
    /// refused. `is_narrowed`: whether only some of the pods were listed, so that workloads without
    /// any of them are left out.
    #[must_use]
    pub fn of(
        objects: Vec<Value>,
        running: RunningPods,
        answers: HashMap<String, GateAnswer>,
        refused: Vec<String>,
        is_narrowed: bool,
    ) -> Self {
        let mut owners = running.by_owner(answers);
        let live = Live { workloads: Vec::new(), refused };
        let mut snapshot = Self { objects: Vec::new(), live };
        for object in objects {
            let makes_pods = object["spec"]["template"]["spec"]["containers"].is_array();
            match owners.remove(&places::own(&object)) {
                Some(pods) if makes_pods => snapshot.add_workload(object, pods),
                _ if makes_pods && is_narrowed => {}
                _ => snapshot.objects.push((place(&object), object)),
            }
        }
        for (owner, OwnedPods { pods, newest }) in owners {
            snapshot.objects.push((owner.clone(), as_written(newest)));
            snapshot.live.workloads.push(Workload { object: owner, template: None, pods });
        }
        snapshot
    }

    fn add_workload(&mut self, mut object: Value, OwnedPods { pods, newest }: OwnedPods) {
        let place = place(&object);
        let template = PodSettings::of(&object);
        let hook = template.hook.as_ref();
        // If no pod has the template yet, the template itself is judged.
        if template.differences(hook, &PodSettings::of(&newest)).is_none() {
            let pod = as_written(newest);
            object["spec"]["template"] =
                json!({ "metadata": pod["metadata"], "spec": pod["spec"] });
        }
        self.objects.push((place.clone(), object));
        self.live.workloads.push(Workload { object: place, template: Some(template), pods });
    }

    /// The verdict on the objects, by the rules or only with what the next stop of each proxy cuts.
    ///
    /// # Errors
    /// The objects of the root namespace and of the whole cluster hold more values than allowed.
    pub fn judge(&self, assume: &Assume, by: Judged) -> Result<Verdict, SourceError> {
        let verdict = match self.part(self.live.refused.clone(), &|_| true, assume, by) {
            Err(SourceError::TooManyValues) => self.by_namespace(assume, by)?,
            whole => whole?,
        };
        Ok(Verdict { objects: self.objects.len(), ..verdict })
    }

    /// Judges each namespace beside the root namespace and the objects of the whole cluster, then
    /// those alone. A namespace that is too large by itself is left out and named.
    fn by_namespace(&self, assume: &Assume, by: Judged) -> Result<Verdict, SourceError> {
        let is_shared = |object: &ClusterObject| {
            object.namespace.as_deref().is_none_or(|name| name == ROOT_NAMESPACE)
        };
        let others = self.objects.iter().map(|(place, _)| place).filter(|place| !is_shared(place));
        let spaces: BTreeSet<&String> =
            others.filter_map(|place| place.namespace.as_ref()).collect();
        let mut refused = self.live.refused.clone();
        let mut all = Verdict::default();
        for space in spaces {
            let is_here = |object: &ClusterObject| object.namespace.as_ref() == Some(space);
            let is_judged = |object: &ClusterObject| is_here(object) || is_shared(object);
            match self.part(Vec::new(), &is_judged, assume, by) {
                Ok(mut part) => {
                    part.findings.retain(|finding| finding.object.as_ref().is_some_and(is_here));
                    part.assessment.keep_namespace(space);
                    all.add(part);
                }
                Err(_) => refused.push(format!(
                    "the namespace `{space}` holds more than `lint` reads at once: narrow it with \
                     `-l`"
                )),
            }
        }
        all.add(self.part(refused, &is_shared, assume, by)?);
        Ok(all)
    }

    /// Judges some of the objects.
    fn part(
        &self,
        refused: Vec<String>,
        is_judged: &dyn Fn(&ClusterObject) -> bool,
        assume: &Assume,
        by: Judged,
    ) -> Result<Verdict, SourceError> {
        let mut left = MOST_NODES;
        let mut sources = Vec::new();
        for (place, object) in self.objects.iter().filter(|(place, _)| is_judged(place)) {
            let tree = Tree::of_value(object);
            left = left.checked_sub(tree.nodes.len()).ok_or(SourceError::TooManyValues)?;
            sources.push(SourceFile::of_object(place.clone(), tree));
        }
        if !refused.is_empty() {
            sources.push(SourceFile::of_object(rights(), Tree::default()));
        }
        let workloads = self.live.workloads.iter();
        let workloads = workloads.filter(|workload| is_judged(&workload.object)).cloned().collect();
        let mut inputs = Inputs::read(&LINTER.program, sources, assume.clone())?;
        inputs.beside = Box::new(Live { workloads, refused });
        let findings = match by {
            Judged::ByRules => LINTER.judged(&inputs, LINTER.of_clusters()),
            Judged::ForStops => Vec::new(),
        };
        Ok(Verdict { findings, assessment: assessed(&inputs), objects: 0 })
    }
}
