//! The report on one pod: the answer of its statistics or of its gate, as a row. Pure.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::answers::answer::{Answer, reason};
use crate::answers::stats::{Stats, total};
use crate::pods::facts::PodFacts;
use crate::pods::time_to_drain::bound;
use laststream_gate::Status;
use laststream_gate::text::many;

/// The class of a pod: which parts of laststream are there, and whether its proxy runs and answers.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Class {
    /// A gate and its counters.
    Installed,
    /// One of the two: the pod is between two states.
    HalfUpgraded,
    /// A proxy without the module.
    Without,
    /// The proxy runs, and did not answer.
    Unreachable,
    /// The proxy does not run yet, or no longer runs.
    #[default]
    NotRunning,
}

/// Whether the pod takes traffic.
#[derive(
    Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, strum::Display,
)]
#[serde(rename_all = "kebab-case")]
#[strum(serialize_all = "lowercase")]
pub enum Life {
    Ready,
    /// The pod is not ready.
    #[default]
    #[strum(to_string = "not ready")]
    NotReady,
    /// The pod was deleted.
    Terminating,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct PodReport {
    pub namespace: String,
    /// Its name.
    pub pod: String,
    pub node: String,
    /// How long its streams have after its deletion, in seconds.
    pub at_most_seconds: u64,
    pub grace_seconds: u64,
    /// Why its streams have too little time after its deletion.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub too_short: Option<String>,
    /// Its owner, such as `ReplicaSet/web-5d`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub owner: Option<String>,
    /// Whether the pod takes traffic.
    pub life: Life,
    /// Whether laststream is there, and answers.
    pub class: Class,
    /// The gate's state, if there is a gate.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub state: Option<String>,
    /// The word for how far the count can be believed, such as `exact`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub count: Option<String>,
    /// Why the count is not exact, why the pod could not be asked, or why it was asked another way.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
    /// Whether the gate itself had to be asked and could not be, so that all else comes from the
    /// statistics.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub gate_unreachable: bool,
    pub in_flight: BTreeMap<String, u64>,
    pub long_lived: u64,
    /// Streams that hold the drain.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub holding: Option<u64>,
    /// The oldest of these streams.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub held_by: Option<String>,
    pub drain_seconds: u64,
    /// The time until the deadline.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub deadline_in_seconds: Option<u64>,
    /// The module's version; `None` if the gate itself was not asked.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
}

impl PodReport {
    pub fn of(pod: &PodFacts, answer: &Answer) -> Self {
        let life = match (pod.terminating, pod.ready) {
            (true, _) => Life::Terminating,
            (false, true) => Life::Ready,
            (false, false) => Life::NotReady,
        };
        let bound = bound(pod);
        let mut report = Self {
            at_most_seconds: bound.seconds,
            grace_seconds: pod.grace,
            too_short: bound.warning,
            namespace: pod.namespace.clone(),
            pod: pod.name.clone(),
            node: pod.node.clone(),
            owner: pod.owner.clone(),
            life,
            ..Self::default()
        };
        match answer {
            Answer::Unasked => {}
            Answer::Silent(why) => {
                report.class = Class::Unreachable;
                report.why = Some(why.clone());
            }
            Answer::Stats(stats) => report.note_stats(stats),
            Answer::Detail(detail) => {
                report.note_status(&detail.status);
                report.held_by = (detail.status.holding > 0).then(|| detail.held());
            }
        }
        report
    }

    fn note_stats(&mut self, stats: &Stats) {
        self.in_flight.clone_from(&stats.in_flight);
        self.long_lived = stats.long_lived;
        self.state = stats.state.map(str::to_owned);
        self.count.clone_from(&stats.count);
        if stats.state.is_some_and(|state| state != "serving") {
            self.drain_seconds = stats.drain_seconds;
            let time_until = |deadline: u64| deadline.saturating_sub(stats.drain_seconds);
            self.deadline_in_seconds = stats.deadline_seconds.map(time_until);
            self.holding = stats.holding;
        }
        self.class = match (stats.state.is_some(), stats.counts()) {
            (true, true) => Class::Installed,
            (false, false) => Class::Without,
            _ => Class::HalfUpgraded,
        };
        self.why = match (self.class, self.count.as_deref()) {
            (Class::HalfUpgraded, _) if self.state.is_none() => {
                Some("streams are counted, and no gate listens".to_owned())
            }
            (Class::HalfUpgraded, _) => Some("a gate without a counter".to_owned()),
            (Class::Installed, Some(word)) => reason(word).map(str::to_owned),
            _ => None,
        };
        if let Some(detour) = stats.detour {
            let way = format!("{detour}: asked by port-forward");
            self.why = Some(self.why.take().map_or(way.clone(), |why| format!("{why}; {way}")));
        }
        if let Some(why) = stats.why_unasked() {
            self.gate_unreachable = true;
            self.why = Some(why);
        }
    }

    fn note_status(&mut self, status: &Status) {
        self.class = if status.count == "unknown" { Class::HalfUpgraded } else { Class::Installed };
        self.state = Some(status.state.clone());
        self.count = Some(status.count.clone());
        let counters = status.late_counters.clone().filter(|_| !status.counts_all());
        let in_words = || reason(&status.count).map(str::to_owned);
        self.why = counters.or_else(|| status.advice.clone()).or_else(in_words);
        for scope in &status.scopes {
            let in_flight = self.in_flight.entry(scope.scope.clone()).or_default();
            *in_flight = in_flight.saturating_add(scope.in_flight);
            self.long_lived = self.long_lived.saturating_add(scope.long_lived);
        }
        self.holding = Some(status.holding);
        if status.state != "serving" {
            self.drain_seconds = status.draining_ms / 1000;
            self.deadline_in_seconds = status.deadline_in_ms.map(|millis| millis / 1000);
        }
        self.version = Some(status.version.clone());
    }

    pub fn gate(&self) -> &str {
        match self.class {
            Class::Installed => self.state.as_deref().unwrap_or("unknown"),
            Class::HalfUpgraded => "half-upgraded",
            Class::Without => "without laststream",
            Class::Unreachable => "unreachable",
            Class::NotRunning => "not running",
        }
    }

    /// Streams in flight, such as `inbound 1, outbound 2`.
    pub fn flight(&self) -> String {
        let scopes = self.in_flight.iter().map(|(scope, count)| format!("{scope} {count}"));
        scopes.collect::<Vec<_>>().join(", ")
    }

    /// The number of streams in flight in all scopes.
    pub fn total(&self) -> u64 {
        total(&self.in_flight)
    }
}

/// The number of pods in each state, for the line below a table.
pub fn summary(reports: &[PodReport]) -> String {
    let mut words: BTreeMap<&str, usize> = BTreeMap::new();
    reports.iter().for_each(|report| *words.entry(report.gate()).or_default() += 1);
    let not_ready = reports.iter().filter(|report| report.life == Life::NotReady).count();
    let mut parts: Vec<String> =
        words.iter().map(|(word, count)| format!("{count} {word}")).collect();
    if not_ready > 0 {
        parts.push(format!("{not_ready} not ready"));
    }
    let streams: u64 = reports.iter().map(PodReport::total).fold(0, u64::saturating_add);
    parts.push(format!("{} in flight", many(streams, "stream")));
    format!("{} with a proxy: {}", many(reports.len() as u64, "pod"), parts.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::answers::stats::Detour;

    fn pod() -> PodFacts {
        PodFacts { namespace: "n".into(), name: "p".into(), ready: true, ..PodFacts::default() }
    }

    fn report(page: &str) -> PodReport {
        PodReport::of(&pod(), &Answer::Stats(Stats::read(page)))
    }

    const GATE: &str = "laststream_gate_state{} 0\nlaststream_gate_count_exact{} 1\n";
    const COUNTER: &str = "laststream_streams_in_flight_inbound{} 2\n";

    #[test]
    fn pods_are_classified_by_their_gate_and_counters() {
        for (page, word, why) in [
            (format!("{GATE}{COUNTER}"), "serving", None),
            (GATE.to_owned(), "half-upgraded", Some("a gate without a counter")),
            (COUNTER.to_owned(), "half-upgraded", Some("streams are counted, and no gate listens")),
            ("envoy_up{} 1\n".to_owned(), "without laststream", None),
        ] {
            let report = report(&page);
            assert_eq!((report.gate(), report.why.as_deref()), (word, why), "{page}");
        }
        let silent = PodReport::of(&pod(), &Answer::Silent("refused".into()));
        assert_eq!((silent.gate(), silent.why.as_deref()), ("unreachable", Some("refused")));
        assert_eq!(PodReport::of(&pod(), &Answer::Unasked).gate(), "not running");
    }

    #[test]
    fn a_deleted_pod_is_terminating_whether_ready_or_not() {
        let of = |terminating, ready| {
            let pod = PodFacts { terminating, ready, ..pod() };
            PodReport::of(&pod, &Answer::Unasked).life
        };
        assert_eq!(of(true, true), Life::Terminating);
        assert_eq!(of(false, true), Life::Ready);
        assert_eq!(of(false, false), Life::NotReady);
    }

    #[test]
    fn an_inexact_count_is_reported_with_its_reason() {
        let page = format!(
            "laststream_gate_state{{}} 1\nlaststream_gate_count_partial{{}} 1\n\
            laststream_gate_drain_seconds{{}} 7\nlaststream_gate_deadline_seconds{{}} 30\n\
            laststream_gate_holding{{}} 2\n{COUNTER}"
        );
        let report = report(&page);
        assert_eq!((report.gate(), report.drain_seconds), ("draining", 7));
        assert_eq!((report.deadline_in_seconds, report.holding), (Some(23), Some(2)));
        assert!(report.why.is_some_and(|why| why.contains("no counter knows")));
    }

    #[test]
    fn only_a_gate_that_is_there_can_be_unreachable() {
        for (page, is_unreachable) in [(GATE, true), (COUNTER, false), ("envoy_up{} 1\n", false)] {
            let gate_error = Some("port 16091 is silent".to_owned());
            let answer = Answer::Stats(Stats { gate_error, ..Stats::read(page) });
            assert_eq!(PodReport::of(&pod(), &answer).gate_unreachable, is_unreachable, "{page}");
        }
    }

    #[test]
    fn another_way_to_the_statistics_is_reported_beside_the_count() {
        let of = |word: &str| {
            let page = GATE.replace("exact", word) + COUNTER;
            let detour = Some(Detour::LocalOnly);
            PodReport::of(&pod(), &Answer::Stats(Stats { detour, ..Stats::read(&page) })).why
        };
        let way = "its agent's statistics are for its own pod only \
            (METRICS_LOCALHOST_ACCESS_ONLY): asked by port-forward";
        assert_eq!(of("exact").as_deref(), Some(way));
        assert_eq!(of("assumed"), Some(format!("Envoy does not export its own count; {way}")));
    }

    #[test]
    fn a_summary_counts_every_pod() {
        let all = [
            report(&format!("{GATE}{COUNTER}")),
            report(""),
            PodReport::of(&PodFacts { ready: false, ..pod() }, &Answer::Unasked),
        ];
        assert_eq!(
            summary(&all),
            "3 pods with a proxy: 1 not running, 1 serving, 1 without laststream, 1 not ready, \
             2 streams in flight"
        );
    }
}
