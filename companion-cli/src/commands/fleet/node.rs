//! `laststream drain --node N --dry-run`

use laststream::base::visible;
use laststream::fleet::bounds::bound;
use laststream::fleet::budgets::{HeldEvictions, held_evictions};
use laststream::fleet::{
    Answer, AskOptions, Cluster, Detail, FleetError, Gates, PodFacts, Selection, Stats, table,
};
use laststream::gate::text::{many, uncounted};

use super::args::ReachArgs;
use super::{block_on, ending};
use crate::commands::cluster_args::ClusterArgs;
use crate::commands::exit::Exit;
use crate::commands::output::Output;
use crate::commands::printer::Printer;

/// Prints the streams and budgets that `kubectl drain` would wait for. Nothing is changed.
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
        let pods = cluster.pods(&selection).await?;
        let all = pods.len();
        if all == 0 {
            printer.error(&no_pod(node));
            return Ok(Exit::Negative);
        }
        let moved: Vec<PodFacts> =
            pods.into_iter().filter(|pod| !pod.stays_on_its_node()).collect();
        let staying = all - moved.len();
        let held = held(&cluster, selection.everywhere, &moved, printer).await?;
        let options = AskOptions { gates: Gates::Every, ..reach.ask_options() };
        let survey = cluster.survey(moved, options).await;
        let known = held.as_deref().unwrap_or_default();
        let rows = survey.pods.iter().map(|(pod, answer)| Row::of(pod, answer, known)).collect();
        let drain = NodeDrain { node, rows, held, without_proxy: survey.without_proxy, staying };
        match output {
            Output::Json => printer.json(&drain.json()),
            Output::Text => drain.print(printer),
        }
        Ok(ending(&survey, printer))
    })
}

/// The evictions that budgets hold, or `None` if the budgets cannot be read.
async fn held(
    cluster: &Cluster,
    everywhere: bool,
    pods: &[PodFacts],
    printer: &Printer,
) -> Result<Option<Vec<HeldEvictions>>, FleetError> {
    match cluster.budgets(everywhere).await {
        Ok(budgets) => Ok(Some(held_evictions(&budgets, pods))),
        Err(error) if error.is_final() => Err(error),
        Err(error) => {
            let what = "for which PodDisruptionBudgets `kubectl drain` waits is not known";
            printer.warning(&format!("{what}: {error}"));
            Ok(None)
        }
    }
}

fn no_pod(node: &str) -> String {
    format!("no pod is on node `{node}`: is its name right? `kubectl get nodes` lists them")
}

/// The effect of the drain on one pod.
#[derive(serde::Serialize)]
struct Row {
    pod: String,
    /// Streams that a drain waits for; `None` if they are not known.
    streams: Option<u64>,
    oldest_seconds: u64,
    at_most_seconds: u64,
    what: String,
    /// The budget that holds the pod's eviction.
    #[serde(skip_serializing_if = "Option::is_none")]
    budget: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    warning: Option<String>,
}

impl Row {
    fn of(pod: &PodFacts, answer: &Answer, held: &[HeldEvictions]) -> Self {
        let bound = bound(pod);
        let path = pod.path();
        let held = held.iter().find(|held| held.pods.contains(&path));
        let (streams, oldest, what) = match answer {
            Answer::Detail(detail) => of_gate(detail),
            Answer::Stats(stats) => of_stats(stats),
            Answer::Silent(why) => (None, 0, format!("unreachable: {why}")),
            Answer::Unasked => (Some(0), 0, "its proxy does not run".to_owned()),
        };
        Self {
            pod: path,
            streams,
            oldest_seconds: oldest,
            at_most_seconds: if streams == Some(0) { 0 } else { bound.seconds },
            what,
            budget: held.map(|held| held.budget.clone()),
            warning: bound.warning,
        }
    }
}

/// Exempt long-lived streams are in flight but do not hold a drain.
fn of_gate(detail: &Detail) -> (Option<u64>, u64, String) {
    let status = &detail.status;
    let Some(streams) = status.held_streams() else {
        return (None, 0, format!("its streams are not known: {}", uncounted(&status.count)));
    };
    let in_flight = status.in_flight();
    let what = match (streams, in_flight) {
        (0, 0) => "nothing is in flight".to_owned(),
        (0, _) => format!("{in_flight} in flight, which do not hold a drain"),
        _ if status.holding < streams => {
            format!("{streams} in flight by Envoy's own count; {}", uncounted(&status.count))
        }
        _ => table::held(detail, 3),
    };
    let oldest = detail.streams.iter().flat_map(|listed| &listed.streams);
    let oldest = oldest.map(|stream| stream.age_ms / 1000).max().filter(|_| streams > 0);
    (Some(streams), oldest.unwrap_or_default(), what)
}

fn of_stats(stats: &Stats) -> (Option<u64>, u64, String) {
    if !stats.counts() {
        return (None, 0, "its streams are not counted, so they are not known".to_owned());
    }
    let streams = stats.total();
    let what = match (stats.state, stats.inexact()) {
        (None, _) => format!("{streams} in flight, and no gate that waits for them"),
        (_, None) => format!("{streams} in flight"),
        (_, Some(count)) => format!("{streams} counted, and {}", uncounted(count)),
    };
    let why = stats.why_unasked().map(|why| format!("; {why}")).unwrap_or_default();
    (stats.inexact().is_none().then_some(streams), 0, what + &why)
}

/// The effect of the drain on the whole node.
struct NodeDrain<'a> {
    node: &'a str,
    rows: Vec<Row>,
    /// `None` if budgets are not known.
    held: Option<Vec<HeldEvictions>>,
    without_proxy: usize,
    staying: usize,
}

impl NodeDrain<'_> {
    fn longest(&self) -> u64 {
        self.rows.iter().map(|row| row.at_most_seconds).max().unwrap_or_default()
    }

    /// Whether all pods can be evicted at once. Otherwise no time is known for all of them.
    fn is_at_once(&self) -> bool {
        self.held.as_ref().is_some_and(Vec::is_empty)
    }

    fn json(&self) -> String {
        let body = serde_json::json!({
            "node": self.node, "pods": self.rows, "without_proxy": self.without_proxy,
            "staying": self.staying, "budgets": self.held,
            "at_most_seconds": self.is_at_once().then(|| self.longest()),
        });
        format!("{body:#}")
    }

    fn print(&self, printer: &Printer) {
        for row in &self.rows {
            let most = match row.at_most_seconds {
                0 => String::new(),
                seconds => format!("; at most {seconds} s"),
            };
            let budget = row.budget.as_ref().map(|budget| format!("; budget {budget}"));
            let budget = budget.unwrap_or_default();
            printer.stdout(&visible::line(&format!("{}: {}{most}{budget}", row.pod, row.what)));
            if let Some(warning) = &row.warning {
                printer.warning(&format!("{}: {warning}", row.pod));
            }
        }
        for held in self.held.iter().flatten() {
            printer.stdout(&visible::line(&budget_line(held)));
        }
        printer.stdout(&self.sum());
        printer.status_line(&format!(
            "{} pods have no proxy; {} belong to the node (DaemonSets) and stay",
            self.without_proxy, self.staying
        ));
    }

    fn sum(&self) -> String {
        let rows = &self.rows;
        let waits = rows.iter().filter(|row| row.streams.is_some_and(|streams| streams > 0));
        let streams = rows.iter().filter_map(|row| row.streams).fold(0, u64::saturating_add);
        let unknown = match rows.iter().filter(|row| row.streams.is_none()).count() {
            0 => String::new(),
            pods => format!(" + {} whose streams are not known", many(pods as u64, "pod")),
        };
        let longest = self.longest();
        let most = match &self.held {
            None => format!("at most {longest} s for each pod; budgets are not known"),
            Some(held) if held.is_empty() => format!("at most {longest} s"),
            Some(_) => {
                format!("at most {longest} s for each pod, and longer for all, because of budgets")
            }
        };
        format!(
            "draining {} now would wait for {} in {} of {} with a proxy{unknown}, {most}",
            self.node,
            many(streams, "stream"),
            waits.count(),
            many(rows.len() as u64, "pod"),
        )
    }
}

/// The line of a budget. It also counts pods without a proxy.
fn budget_line(held: &HeldEvictions) -> String {
    let HeldEvictions { budget, pods, would_block, why } = held;
    let pods = many(pods.len() as u64, "pod");
    if *would_block {
        format!("budget {budget} would block {pods} of the node: {why}")
    } else {
        format!("budget {budget} lets {pods} of the node go in turns: {why}")
    }
}

#[cfg(test)]
mod tests {
    use laststream::fleet::Hook;

    use super::*;

    fn row(answer: &Answer) -> Row {
        let (hook, proxy) = (Hook::Within(24), Some("envoy".to_owned()));
        Row::of(&PodFacts { hook, proxy, grace: 30, ..PodFacts::default() }, answer, &[])
    }

    fn sum(rows: Vec<Row>, held: Option<Vec<HeldEvictions>>) -> String {
        NodeDrain { node: "a", rows, held, without_proxy: 0, staying: 0 }.sum()
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
    fn unknown_streams_are_not_zero() {
        let silent = row(&Answer::Silent("refused".into()));
        assert_eq!((silent.streams, silent.at_most_seconds), (None, 24));
        let without = row(&Answer::Stats(Stats::default()));
        assert_eq!((without.streams, without.at_most_seconds), (None, 24));
        let text = sum(vec![silent, row(&detail(2, 2))], Some(Vec::new()));
        assert!(text.contains("2 streams in 1 of 2 pods with a proxy + 1 pod "), "{text}");
    }

    #[test]
    fn streams_in_envoys_own_count_hold_the_drain() {
        let of = |active: Option<u64>| {
            let mut answer = detail(0, 0);
            if let Answer::Detail(detail) = &mut answer {
                detail.status.count = "partial".into();
                detail.status.envoy_active = active;
            }
            row(&answer)
        };
        for (active, streams, seconds, what) in [
            (
                Some(40),
                Some(40),
                24,
                "40 in flight by Envoy's own count; the gate's count is `partial`",
            ),
            (Some(0), Some(0), 0, "nothing is in flight"),
            (None, None, 24, "its streams are not known: the gate's count is `partial`"),
        ] {
            let row = of(active);
            assert_eq!(
                (row.streams, row.at_most_seconds, row.what.as_str()),
                (streams, seconds, what)
            );
        }
    }

    #[test]
    fn the_time_for_all_pods_is_shown_only_if_no_budget_holds_one() {
        let budget = "shop/web".to_owned();
        let held = HeldEvictions { budget, pods: vec![], would_block: false, why: String::new() };
        for (held, expected) in [
            (Some(Vec::new()), "at most 24 s"),
            (Some(vec![held]), "at most 24 s for each pod, and longer for all, because of budgets"),
            (None, "at most 24 s for each pod; budgets are not known"),
        ] {
            let text = sum(vec![row(&detail(1, 1))], held);
            assert!(text.ends_with(&format!(", {expected}")), "{text}");
        }
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
        assert!(row(&Answer::Stats(stats)).what.ends_with("and no gate that waits for them"));
    }

    #[test]
    fn inexact_statistics_give_no_number_of_streams() {
        let of = |count: &str| {
            let mut stats = Stats { state: Some("serving"), ..Stats::default() };
            stats.in_flight.insert("inbound".into(), 0);
            (stats.count, stats.gate_error) = (Some(count.into()), Some("late".into()));
            row(&Answer::Stats(stats))
        };
        let partial = of("partial");
        assert_eq!((partial.streams, partial.at_most_seconds), (None, 24));
        let what = "0 counted, and the gate's count is `partial`; its gate cannot be asked: late";
        assert_eq!(partial.what, what);
        assert_eq!(of("exact").streams, Some(0));
    }
}
