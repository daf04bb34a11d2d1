//! `laststream lint --change OLD NEW --cluster`: the streams of running pods that the change would
//! cut now.

use std::collections::HashMap;

use laststream_base::time_span::TimeSpan;
use laststream_fleet::{Answer, FleetError, ISTIO_PROXY, PodFacts, listing};
use laststream_lint::change::{Change, CutStreams, ProxyRole, ProxyStreams, RunningProxy};
use serde_json::Value;

use super::cluster::LiveArgs;
use super::places;
use super::settings::{containers, is_named};
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
    let cluster = arguments.connect().await?;
    let mut proxies = HashMap::new();
    let read = |facts: PodFacts, pod: Value| {
        let proxy = running(&facts, &pod).filter(|proxy| change.reaches(proxy))?;
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

/// The proxy of a pod.
fn running(facts: &PodFacts, pod: &Value) -> Option<RunningProxy> {
    let own = facts.proxy.as_deref()?;
    let proxy = containers(pod).find(|container| is_named(container, &[own]))?;
    let metadata = &pod["metadata"];
    let labels = metadata["labels"].as_object().into_iter().flatten();
    let label = |name: &str| metadata["labels"][name].as_str();
    let [owning_namespace, owning_gateway] = places::ENVOY_GATEWAY.map(label);
    let template = metadata["annotations"]["inject.istio.io/templates"].as_str();
    let arguments = || proxy["args"].as_array().into_iter().flatten().filter_map(Value::as_str);
    let role = if owning_gateway.is_some() {
        ProxyRole::EnvoyGateway
    } else if arguments().any(|word| word == "waypoint") {
        ProxyRole::Waypoint
    } else if arguments().any(|word| word == "router") || template == Some("gateway") {
        ProxyRole::Gateway
    } else {
        ProxyRole::Sidecar
    };
    let of_istio = metadata["annotations"]["proxy.istio.io/config"].as_str();
    let drain = if own == ISTIO_PROXY {
        of_istio.and_then(drain_of_istio)
    } else {
        let mut after = arguments().skip_while(|word| *word != "--drain-time-s");
        after.nth(1).and_then(|seconds| format!("{seconds}s").parse().ok())
    };
    Some(RunningProxy {
        workload: places::owner(pod).to_string(),
        namespace: owning_namespace.unwrap_or(&facts.namespace).to_owned(),
        labels: labels
            .filter_map(|(name, value)| Some((name.clone(), value.as_str()?.to_owned())))
            .collect(),
        role,
        drain,
    })
}

/// The `drainDuration` in the text of an annotation.
fn drain_of_istio(config: &str) -> Option<TimeSpan> {
    let (_, rest) = config.split_once("drainDuration")?;
    let rest = rest.trim_start_matches(['"', '\'', ':', ' ']);
    let end = rest.find(|character: char| !character.is_ascii_alphanumeric());
    rest.get(..end.unwrap_or(rest.len()))?.parse().ok()
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::Pod;
    use laststream_fleet::Ports;
    use serde::Deserialize as _;
    use serde_json::json;

    use super::*;

    #[test]
    fn the_role_and_the_drain_time_are_those_of_the_running_proxy() {
        let of = |labels: Value, config: &str, name: &str, arguments: Value| {
            let pod = json!({
                "metadata": {
                    "name": "a", "namespace": "system", "labels": labels,
                    "annotations": { "proxy.istio.io/config": config },
                },
                "spec": { "containers": [{ "name": name, "args": arguments }] },
            });
            let facts = Pod::deserialize(&pod).map(|pod| PodFacts::of(&pod, Ports::default()));
            let proxy = running(&facts.unwrap(), &pod).unwrap();
            (proxy.role, proxy.namespace, proxy.drain.map(TimeSpan::whole_seconds))
        };
        let none = || json!({});
        for (config, drain) in [
            ("drainDuration: 60s\n", Some(60)),
            ("{\"drainDuration\":\"1m30s\",\"a\":1}", Some(90)),
            ("{}", None),
        ] {
            let expected = (ProxyRole::Sidecar, "system".to_owned(), drain);
            assert_eq!(of(none(), config, ISTIO_PROXY, json!(["proxy", "sidecar"])), expected);
        }
        let (role, ..) = of(none(), "", ISTIO_PROXY, json!(["proxy", "router"]));
        assert_eq!(role, ProxyRole::Gateway);
        let (role, ..) = of(none(), "", ISTIO_PROXY, json!(["proxy", "waypoint"]));
        assert_eq!(role, ProxyRole::Waypoint);
        let [namespace, name] = places::ENVOY_GATEWAY;
        let labels = json!({ namespace: "shop", name: "edge" });
        let gateway = of(labels, "", "envoy", json!(["--drain-time-s", "50", "--x"]));
        assert_eq!(gateway, (ProxyRole::EnvoyGateway, "shop".to_owned(), Some(50)));
    }
}
