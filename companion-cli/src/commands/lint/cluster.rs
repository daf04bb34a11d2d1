//! `laststream lint --cluster`: the objects of an API server, its running pods, and their gates.

use std::collections::HashMap;

use clap::Args;
use laststream_fleet::objects::Objects;
use laststream_fleet::{
    AskOptions, Cluster, FleetError, Gates, PodFacts, PodReport, Selection, client,
};
use laststream_lint::live::GateAnswer;
use laststream_lint::output::Checked;
use laststream_lint::{Assume, Finding};
use laststream_policy::warnings::ROOT_NAMESPACE;
use serde_json::Value;

use super::judged::judged;
use super::running::RunningPods;
use super::settings::answer;
use super::workloads;
use crate::commands::cluster_args::ContextArgs;
use crate::commands::exit::Exit;
use crate::commands::pods::args::{ReachArgs, labels};
use crate::commands::printer::Printer;

/// The options that make `lint` check a cluster.
#[derive(Debug, Args)]
pub(super) struct LiveArgs {
    /// Checks the objects of a cluster and its running pods, instead of files: those of the
    /// context, or of another one with `--cluster=NAME`. With `--change`: how many streams of its
    /// pods the change would cut now.
    #[arg(long, value_name = "NAME", num_args = 0..=1, require_equals = true,
        default_missing_value = "",
        conflicts_with_all = ["files", "list", "explain", "crds"])]
    cluster: Option<String>,
    #[command(flatten)]
    context: ContextArgs,
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
    pub(super) fn refuse_without_cluster(&self, printer: &Printer) -> Result<(), Exit> {
        let are_given = self.context.are_given()
            || self.all_namespaces
            || self.selector.is_some()
            || self.reach.are_given();
        if are_given && !self.is_given() {
            return Err(printer.misused(&"the options for a cluster need `--cluster`"));
        }
        Ok(())
    }

    pub(super) async fn connect(&self) -> Result<Cluster, FleetError> {
        let name = self.cluster.clone().filter(|name| !name.is_empty());
        self.context.connect(name).await
    }

    pub(super) fn at_a_time(&self) -> usize {
        self.reach.at_a_time()
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
pub(super) fn findings(
    arguments: &LiveArgs,
    assume: Assume,
    printer: &Printer,
) -> Result<(Vec<Finding>, Checked), Exit> {
    let seen = client::runtime().and_then(|runtime| {
        let seen = runtime.block_on(look(arguments));
        runtime.shutdown_background(); // a hanging credential program must not delay the end
        seen
    });
    let seen = seen.map_err(|error| printer.failed(&error))?;
    let Seen { objects, pods, answers, kubernetes } = seen;
    let assume = Assume { kubernetes: assume.kubernetes.or(kubernetes), ..assume };
    let refused = objects.refused.iter().map(ToString::to_string).collect();
    let is_narrowed = arguments.selector.is_some();
    let cluster = workloads::Cluster::of(objects.objects, pods, &answers, is_narrowed);
    judged(cluster, refused, &assume).map_err(|message| printer.failed(&message))
}

/// What the API server and the gates have told.
struct Seen {
    objects: Objects,
    pods: RunningPods,
    /// The gates' answers, by the UIDs of their pods.
    answers: HashMap<String, GateAnswer>,
    kubernetes: Option<(u32, u32)>,
}

async fn look(arguments: &LiveArgs) -> Result<Seen, FleetError> {
    let cluster = arguments.connect().await?;
    let mut objects = cluster.objects(arguments.all_namespaces, ROOT_NAMESPACE).await?;
    let selection = arguments.selection();
    let mut pods = RunningPods::default();
    let listed = cluster.whole_pods(&selection, |pod| pods.read(pod, selection.ports)).await;
    match listed {
        Ok(listed) => pods.keep(listed.into_iter().flatten()),
        Err(error) if error.is_final() => return Err(error),
        Err(error) => objects.refused.push(error),
    }
    let is_own = |object: &Value| {
        arguments.all_namespaces || object["metadata"]["namespace"] == cluster.namespace()
    };
    let has_objects = arguments.selector.is_none() && objects.objects.iter().any(is_own);
    if pods.pods.is_empty() && objects.refused.is_empty() && !has_objects {
        let why = "nothing to check was found: are the namespace and the labels right?";
        return Err(FleetError::Other(why.to_owned()));
    }
    let asked = pods.with_gate().cloned().collect();
    let answers = ask(&cluster, asked, arguments, &mut objects.refused).await;
    let kubernetes = cluster.version().await;
    Ok(Seen { objects, pods, answers, kubernetes })
}

async fn ask(
    cluster: &Cluster,
    pods: Vec<PodFacts>,
    arguments: &LiveArgs,
    refused: &mut Vec<FleetError>,
) -> HashMap<String, GateAnswer> {
    let options = AskOptions { gates: Gates::Every, streams: 1, at_a_time: arguments.at_a_time() };
    let survey = cluster.survey(pods, options).await;
    let is_refused = survey.failure.is_some();
    refused.extend(survey.failure);
    let answers = survey.pods.into_iter().map(|(pod, said)| {
        let answer = answer(PodReport::of(&pod, &said), is_refused);
        (pod.uid, answer)
    });
    answers.collect()
}
