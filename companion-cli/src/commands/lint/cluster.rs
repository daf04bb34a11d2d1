//! `laststream lint --cluster`: the objects of an API server, its running pods, and their gates.

use clap::Args;
use laststream_fleet::{Access, AskOptions, Cluster, FleetError, GateQuery, PodReport, Selection};
use laststream_lint::output::Checked;
use laststream_lint::{Assume, Finding};
use laststream_policy::warnings::ROOT_NAMESPACE;
use serde_json::Value;

use super::judged::judged;
use super::running::RunningPods;
use super::settings::answer;
use super::workloads;
use crate::args::cluster::connect;
use crate::args::pods::{ReachArgs, labels};
use crate::commands::{Failure, misused};

/// The options that make `lint` check a cluster.
#[derive(Debug, Default, PartialEq, Args)]
pub(super) struct LiveArgs {
    /// Checks the objects of a cluster and its running pods, instead of files: those of the
    /// context, or of another one with `--cluster=NAME`. With `--change`: how many streams of its
    /// pods the change would cut now.
    #[arg(long, value_name = "NAME", num_args = 0..=1, require_equals = true,
        default_missing_value = "",
        conflicts_with_all = ["files", "list", "explain", "crds"])]
    cluster: Option<String>,
    #[command(flatten)]
    access: Access,
    /// All namespaces.
    #[arg(short = 'A', long, conflicts_with = "namespace", help_heading = "Cluster")]
    all_namespaces: bool,
    /// Only pods with these labels, such as `app=web`, and what makes them.
    #[arg(short = 'l', long, value_name = "LABELS", value_parser = labels,
        help_heading = "Cluster")]
    selector: Option<String>,
    #[command(flatten)]
    reach: ReachArgs,
}

impl LiveArgs {
    pub(super) fn is_given(&self) -> bool {
        self.cluster.is_some()
    }

    /// Refuses options for a cluster when files are checked.
    pub(super) fn refuse_without_cluster(&self) -> Result<(), Failure> {
        if !self.is_given() && *self != Self::default() {
            return Err(misused("the options for a cluster need `--cluster`"));
        }
        Ok(())
    }

    pub(super) async fn connect(&self) -> Result<Cluster, FleetError> {
        let name = self.cluster.clone().filter(|name| !name.is_empty());
        connect(&self.access, name).await
    }

    /// How gates are asked, each for at most so many streams.
    pub(super) fn ask_options(&self, streams: u32) -> AskOptions {
        AskOptions { query: GateQuery::First, streams, ..self.reach.ask_options() }
    }

    pub(super) fn selection(&self) -> Selection {
        Selection {
            everywhere: self.all_namespaces,
            labels: self.selector.clone(),
            ports: self.reach.ports(),
            ..Selection::default()
        }
    }
}

/// The findings, and the number of checked objects.
pub(super) async fn findings(
    arguments: &LiveArgs,
    assume: Assume,
) -> Result<(Vec<Finding>, Checked), Failure> {
    let cluster = arguments.connect().await?;
    let mut seen = cluster.objects(arguments.all_namespaces, ROOT_NAMESPACE).await?;
    let mut pods = RunningPods::default();
    let read = |facts, pod| Some(pods.read(facts, pod));
    match cluster.whole_pods(&arguments.selection(), read).await {
        Ok(listed) => pods.keep(listed),
        Err(error) if error.is_final() => return Err(error.into()),
        Err(error) => seen.refused.push(error),
    }
    let is_own = |object: &Value| {
        arguments.all_namespaces || object["metadata"]["namespace"] == cluster.namespace()
    };
    let is_narrowed = arguments.selector.is_some();
    let has_objects = !is_narrowed && seen.objects.iter().any(is_own);
    if pods.pods.is_empty() && seen.refused.is_empty() && !has_objects {
        let why = "nothing to check was found: are the namespace and the labels right?";
        return Err(FleetError::NothingFound(why).into());
    }
    let survey = cluster.survey(pods.with_gate(), arguments.ask_options(1)).await;
    let is_refused = survey.failure.is_some();
    seen.refused.extend(survey.failure);
    let answers = survey.pods.into_iter().map(|(pod, said)| {
        let answer = answer(PodReport::of(&pod, &said), is_refused);
        (pod.uid, answer)
    });
    let kubernetes = assume.kubernetes.or(cluster.version().await);
    let assume = Assume { kubernetes, ..assume };
    let refused = seen.refused.iter().map(ToString::to_string).collect();
    let found = workloads::Cluster::of(seen.objects, pods, &answers.collect(), is_narrowed);
    Ok(judged(&found, refused, &assume)?)
}
