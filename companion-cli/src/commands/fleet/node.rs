//! `laststream drain --node N --dry-run`

use laststream::fleet::bounds::bound;
use laststream::fleet::{Answer, Detail, Gates, Manner, PodFacts, Selection, Stats, table};
use laststream::gate::text::many;
use laststream::visible;

use super::args::ReachArgs;
use super::{block_on, ending};
use crate::commands::cluster_args::ClusterArgs;
use crate::commands::exit::Exit;
use crate::commands::output::Output;
use crate::commands::printer::Printer;

const VERB: &str = "drain";

/// Prints what `kubectl drain` would wait for. Nothing is changed.
pub(in crate::commands) fn run(
    node: &str,
    access: &ClusterArgs,
    reach: &ReachArgs,
    output: Output,
    printer: &Printer,
) -> Exit {
    block_on(printer, async {
        let cluster = access.connect().await?;
        let selection = Selection {
            everywhere: access.namespace.is_none(),
            node: Some(node.to_owned()),
            ports: reach.ports(),
            ..Selection::default()
        };
        let pods = cluster.pods(VERB, &selection).await?;
        let all = pods.len();
        if all == 0 {
            printer.error(&no_pod(node));
            return Ok(Exit::Found);
        }
        let moved: Vec<PodFacts> =
            pods.into_iter().filter(|pod| !pod.stays_on_its_node()).collect();
        let staying = all - moved.len();
        let manner = Manner { gates: Gates::Every, ..reach.manner(VERB) };
        let survey = cluster.survey(moved, manner).await;
        let rows: Vec<Row> = survey.pods.iter().map(|(pod, answer)| Row::of(pod, answer)).collect();
        match output {
            Output::Json => printer.json(&format!(
                "{:#}",
                serde_json::json!({
                    "node": node, "pods": rows, "without_proxy": survey.without_proxy,
                    "staying": staying, "at_most_seconds": longest(&rows),
                })
            )),
            Output::Text => print(node, &rows, survey.without_proxy, staying, printer),
        }
        Ok(ending(&survey, printer))
    })
}

fn no_pod(node: &str) -> String {
    format!("no pod is on node `{node}`: is its name right? `kubectl get nodes` lists them")
}

/// What one pod would do.
#[derive(serde::Serialize)]
struct Row {
    pod: String,
    /// Streams that a drain waits for; nothing if they are not known.
    streams: Option<u64>,
    oldest_seconds: u64,
    at_most_seconds: u64,
    what: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    warning: Option<String>,
}

impl Row {
    fn of(pod: &PodFacts, answer: &Answer) -> Self {
        let bound = bound(pod);
        let (streams, oldest, what) = match answer {
            Answer::Detail(detail) => of_gate(detail),
            Answer::Stats(stats) => of_stats(stats),
            Answer::Silent(why) => (None, 0, format!("unreachable: {why}")),
            Answer::Unasked => (Some(0), 0, "its proxy does not run".to_owned()),
        };
        Self {
            pod: pod.path(),
            streams,
            oldest_seconds: oldest,
            at_most_seconds: if streams == Some(0) { 0 } else { bound.seconds },
            what,
            warning: bound.warning,
        }
    }
}

/// Long-lived streams that are exempt are in flight and hold nothing.
fn of_gate(detail: &Detail) -> (Option<u64>, u64, String) {
    let streams = detail.status.holding;
    let in_flight = detail.status.in_flight();
    let what = match (streams, in_flight) {
        (0, 0) => "nothing is in flight".to_owned(),
        (0, _) => format!("{in_flight} in flight, which do not hold a drain"),
        _ => table::held(&Answer::Detail(Box::new(detail.clone())), 3),
    };
    let oldest = detail.streams.iter().flat_map(|listed| &listed.streams);
    let oldest = oldest.map(|stream| stream.age_ms / 1000).max().filter(|_| streams > 0);
    (Some(streams), oldest.unwrap_or_default(), what)
}

fn of_stats(stats: &Stats) -> (Option<u64>, u64, String) {
    if !stats.counts() {
        return (None, 0, "its streams are not counted, so they are not known".to_owned());
    }
    let streams = stats.in_flight.values().sum();
    let what = match (stats.state, &stats.gate_error) {
        (None, _) => format!("{streams} in flight, and no gate that waits for them"),
        (_, None) => format!("{streams} in flight"),
        (_, Some(why)) => format!("{streams} in flight; its gate cannot be asked: {why}"),
    };
    (Some(streams), 0, what)
}

fn longest(rows: &[Row]) -> u64 {
    rows.iter().map(|row| row.at_most_seconds).max().unwrap_or_default()
}

fn print(node: &str, rows: &[Row], without_proxy: usize, staying: usize, printer: &Printer) {
    for row in rows {
        let most = match row.at_most_seconds {
            0 => String::new(),
            seconds => format!("; at most {seconds} s"),
        };
        printer.stdout(&visible::line(&format!("{}: {}{most}", row.pod, row.what)));
        if let Some(warning) = &row.warning {
            printer.warning(&format!("{}: {warning}", row.pod));
        }
    }
    printer.stdout(&sum(node, rows));
    printer.status_line(&format!(
        "{without_proxy} pods have no proxy; {staying} belong to the node (DaemonSets) and stay"
    ));
}

fn sum(node: &str, rows: &[Row]) -> String {
    let holding = rows.iter().filter(|row| row.streams.is_some_and(|streams| streams > 0)).count();
    let streams = rows.iter().filter_map(|row| row.streams).fold(0, u64::saturating_add);
    let unknown = match rows.iter().filter(|row| row.streams.is_none()).count() {
        0 => String::new(),
        pods => format!(" + {} whose streams are not known", many(pods as u64, "pod")),
    };
    format!(
        "draining {node} now would wait for {} in {holding} of {} with a proxy{unknown}, at most \
         {} s",
        many(streams, "stream"),
        many(rows.len() as u64, "pod"),
        longest(rows)
    )
}

#[cfg(test)]
mod tests {
    use laststream::fleet::Hook;

    use super::*;

    fn row(answer: &Answer) -> Row {
        let (hook, proxy) = (Hook::Within(24), Some("envoy".to_owned()));
        Row::of(&PodFacts { hook, proxy, grace: 30, ..PodFacts::default() }, answer)
    }

    fn detail(holding: u64, in_flight: u64) -> Answer {
        let status = serde_json::json!({
            "state": "serving", "reason": "r", "count": "exact", "holding": holding,
            "draining_ms": 0,
            "scopes": [{ "scope": "inbound", "in_flight": in_flight, "begun": 0 }],
        });
        let status = serde_json::from_value(status).unwrap();
        Answer::Detail(Box::new(Detail { status, streams: Err("a secret".into()) }))
    }

    #[test]
    fn streams_that_are_not_known_are_not_zero() {
        let silent = row(&Answer::Silent("refused".into()));
        assert_eq!((silent.streams, silent.at_most_seconds), (None, 24));
        let without = row(&Answer::Stats(Stats::default()));
        assert_eq!((without.streams, without.at_most_seconds), (None, 24));
        let text = sum("a", &[silent, row(&detail(2, 2))]);
        assert!(text.contains("2 streams in 1 of 2 pods with a proxy + 1 pod "), "{text}");
    }

    #[test]
    fn exempt_streams_hold_no_drain() {
        let exempt = row(&detail(0, 4));
        assert_eq!((exempt.streams, exempt.at_most_seconds), (Some(0), 0));
        assert_eq!(row(&detail(1, 4)).streams, Some(1));
    }

    #[test]
    fn a_gate_that_cannot_be_asked_is_still_a_gate() {
        let mut stats = Stats { state: Some("serving"), ..Stats::default() };
        stats.in_flight.insert("inbound".into(), 5);
        stats.gate_error = Some("no port-forward".into());
        let what = row(&Answer::Stats(stats.clone())).what;
        assert_eq!(what, "5 in flight; its gate cannot be asked: no port-forward");
        stats.state = None;
        assert!(row(&Answer::Stats(stats)).what.contains("no gate"));
    }
}
