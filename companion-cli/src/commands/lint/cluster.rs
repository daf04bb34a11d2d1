//! `laststream lint --cluster`: the objects of an API server, its running pods, and their gates.

use clap::Args;
use laststream_fleet::objects::Objects;
use laststream_fleet::{
    Access, AskOptions, Class, Cluster, FleetError, GateQuery, PodFacts, PodReport, Selection,
};
use laststream_lint::cluster::{RunningPods, Snapshot};
use laststream_lint::live::GateAnswer;
use laststream_lint::output::Checked;
use laststream_lint::{Assume, Finding};
use laststream_policy::warnings::ROOT_NAMESPACE;
use serde_json::Value;

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
    let Objects { objects, mut refused } =
        cluster.objects(arguments.all_namespaces, ROOT_NAMESPACE).await?;
    let (running, gated) = match running_pods(&cluster, &arguments.selection()).await {
        Err(error) if !error.is_final() => {
            refused.push(error);
            <_>::default()
        }
        pods => pods?,
    };
    let is_own = |object: &Value| {
        arguments.all_namespaces || object["metadata"]["namespace"] == cluster.namespace()
    };
    let is_narrowed = arguments.selector.is_some();
    let has_objects = !is_narrowed && objects.iter().any(is_own);
    if running.is_empty() && refused.is_empty() && !has_objects {
        let why = "nothing to check was found: are the namespace and the labels right?";
        return Err(FleetError::NothingFound(why).into());
    }
    let survey = cluster.survey(gated, arguments.ask_options(1)).await;
    let is_refused = survey.failure.is_some();
    refused.extend(survey.failure);
    let answers = survey.pods.into_iter().map(|(pod, answer)| {
        let answer = gate_answer(PodReport::of(&pod, &answer), is_refused);
        (pod.uid, answer)
    });
    let refused = refused.iter().map(ToString::to_string).collect();
    let snapshot = Snapshot::of(objects, running, answers.collect(), refused, is_narrowed);
    let kubernetes = assume.kubernetes.or(cluster.version().await);
    Ok(snapshot.findings(&Assume { kubernetes, ..assume })?)
}

/// The running pods, and those of them that should have a gate.
async fn running_pods(
    cluster: &Cluster,
    selection: &Selection,
) -> Result<(RunningPods, Vec<PodFacts>), FleetError> {
    let mut running = RunningPods::default();
    let keep = |pod: PodFacts, fields| running.add(pod.uid.clone(), fields).then_some(pod);
    let gated = cluster.whole_pods(selection, keep).await?;
    Ok((running, gated))
}

/// The answer of a gate from the report on its pod. `is_refused`: a right for all pods is missing,
/// which is one finding of its own.
fn gate_answer(report: PodReport, is_refused: bool) -> GateAnswer {
    let why = report.why.filter(|_| !(is_refused && report.gate_unreachable));
    match report.class {
        Class::NotRunning => GateAnswer::Unasked,
        Class::Unreachable if is_refused => GateAnswer::Unasked,
        Class::Unreachable => GateAnswer::Silent(why.unwrap_or_default()),
        Class::Without => GateAnswer::Missing("the proxy has no metric of laststream".to_owned()),
        Class::HalfUpgraded if report.state.is_none() => {
            GateAnswer::Missing(why.unwrap_or_default())
        }
        Class::HalfUpgraded | Class::Installed => GateAnswer::Here {
            count: report.count.unwrap_or_else(|| "asking".to_owned()),
            why,
            version: report.version.filter(|version| !version.is_empty()),
        },
    }
}
