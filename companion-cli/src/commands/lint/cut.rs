//! `laststream lint --change OLD NEW --cluster`: the streams of running pods that the change would
//! cut now.

use std::collections::HashMap;

use laststream_fleet::{Answer, FleetError, PodFacts, listing};
use laststream_lint::change::{Change, CutStreams, ProxyStreams, RunningProxy};
use serde_json::Value;

use super::cluster::LiveArgs;
use crate::commands::Printer;

/// The most streams that one gate lists.
const LISTED: u32 = 100;

/// The streams that the change would cut in the pods of the cluster. Asks the gates of those that
/// it reaches.
pub(super) async fn now(
    change: &Change,
    arguments: &LiveArgs,
    printer: &Printer,
) -> Result<Vec<CutStreams>, FleetError> {
    let cluster = arguments.scan.connect().await?;
    let mut proxies = HashMap::new();
    let read = |facts: PodFacts, pod: Value| {
        let proxy = RunningProxy::of(&pod, facts.proxy.as_deref()?);
        let proxy = proxy.filter(|proxy| change.reaches(proxy))?;
        proxies.insert(facts.uid.clone(), proxy);
        Some(facts)
    };
    let reached = cluster.whole_pods(&arguments.selection(), read).await?;
    let survey = cluster.survey(reached, arguments.ask_options(LISTED)).await;
    if let Some(failure) = &survey.failure {
        printer.warning(&failure.to_string());
    }
    let answers = survey.pods.iter();
    let answered =
        answers.filter_map(|(pod, answer)| Some((proxies.remove(&pod.uid)?, streams(answer))));
    Ok(change.cut(&answered.collect::<Vec<_>>()))
}

/// The streams that a pod's gate has told, or its statistics.
fn streams(answer: &Answer) -> ProxyStreams {
    let mut streams = ProxyStreams::default();
    match answer {
        Answer::Unasked => streams.unknown = Some("its proxy does not run".to_owned()),
        Answer::Silent(why) => streams.unknown = Some(why.clone()),
        Answer::Stats(stats) => {
            streams.in_flight.clone_from(&stats.in_flight);
            if !stats.counts() {
                streams.unknown = Some("nothing counts its streams".to_owned());
            }
        }
        Answer::Detail(detail) => {
            let scopes = detail.status.scopes.iter();
            streams.in_flight =
                scopes.map(|scope| (scope.scope.clone(), scope.in_flight)).collect();
            let listed = detail.streams.iter().flat_map(|listed| &listed.streams);
            streams.listed = listed.map(|stream| (stream.scope.clone(), stream.age_ms)).collect();
        }
    }
    streams.unknown = streams.unknown.or_else(|| listing::missing(answer, LISTED));
    streams
}
