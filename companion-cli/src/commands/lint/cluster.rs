//! `laststream lint --cluster`: the objects of an API server, its running pods, and their gates.

use clap::Args;
use laststream_fleet::{AskOptions, Class, GateQuery, PodReport, Selection};
use laststream_lint::cluster::{Judged, Snapshot};
use laststream_lint::live::GateAnswer;
use laststream_lint::{Assume, Verdict};

use crate::args::pods::ReachArgs;
use crate::args::scan::ScanArgs;
use crate::commands::scanned::{Scanned, scan};
use crate::commands::{Failure, misused};

/// The options that make `lint` check a cluster. With `--change`: how many streams of its pods the
/// change would cut now.
#[derive(Debug, Default, PartialEq, Args)]
pub(super) struct LiveArgs {
    #[command(flatten)]
    pub(super) scan: ScanArgs,
    #[command(flatten)]
    reach: ReachArgs,
}

impl LiveArgs {
    pub(super) fn is_given(&self) -> bool {
        self.scan.is_given()
    }

    /// Refuses options for a cluster when files are checked.
    pub(super) fn refuse_without_cluster(&self) -> Result<(), Failure> {
        if !self.is_given() && *self != Self::default() {
            return Err(misused("the options for a cluster need `--cluster`"));
        }
        Ok(())
    }

    /// How gates are asked, each for at most so many streams.
    pub(super) fn ask_options(&self, streams: u32) -> AskOptions {
        AskOptions { query: GateQuery::First, streams, ..self.reach.ask_options() }
    }

    pub(super) fn selection(&self) -> Selection {
        self.scan.selection(self.reach.ports())
    }
}

/// The verdict on the objects of a cluster.
pub(super) async fn judge(arguments: &LiveArgs, assume: Assume) -> Result<Verdict, Failure> {
    let Scanned { cluster, objects, running, gated, mut refused } =
        scan(&arguments.scan, arguments.reach.ports()).await?;
    let survey = cluster.survey(gated, arguments.ask_options(1)).await;
    let is_refused = survey.failure.is_some();
    refused.extend(survey.failure);
    let answers = survey.pods.into_iter().map(|(pod, answer)| {
        let answer = gate_answer(PodReport::of(&pod, &answer), is_refused);
        (pod.uid, answer)
    });
    let refused = refused.iter().map(ToString::to_string).collect();
    let is_narrowed = arguments.scan.selector.is_some();
    let snapshot = Snapshot::of(objects, running, answers.collect(), refused, is_narrowed);
    let kubernetes = assume.kubernetes.or(cluster.version().await);
    Ok(snapshot.judge(&Assume { kubernetes, ..assume }, Judged::ByRules)?)
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
