//! Reports on pods and streams as text. Pure; every name stays on its line.

use crate::reports::listing::PodStream;
use crate::reports::pod_report::{Class, PodReport};
use laststream_gate::text::{self, Column, columns, if_any};

/// The optional columns of a table.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Width {
    pub namespaces: bool,
    /// Whether all columns are shown.
    pub wide: bool,
    pub deletion: bool,
}

const DEFAULT_COLUMNS: [Column<PodReport>; 8] = [
    ("POD", |report| report.pod.clone()),
    ("LIFE", |report| report.life.to_string()),
    ("GATE", |report| report.gate().to_owned()),
    ("COUNT", |report| report.count.clone().unwrap_or_default()),
    ("IN FLIGHT", PodReport::flight),
    ("LONG-LIVED", |report| if_any(report.long_lived, report.long_lived.to_string())),
    ("DRAIN", |report| if_any(report.drain_seconds, format!("{} s", report.drain_seconds))),
    ("LEFT", |report| {
        report.deadline_in_seconds.map(|left| format!("{left} s")).unwrap_or_default()
    }),
];

const WIDE: [Column<PodReport>; 5] = [
    ("HOLDING", |report| report.holding.map(|count| count.to_string()).unwrap_or_default()),
    ("VERSION", |report| report.version.clone().unwrap_or_default()),
    ("OWNER", |report| report.owner.clone().unwrap_or_default()),
    ("NODE", |report| report.node.clone()),
    ("WHY", |report| report.why.clone().unwrap_or_default()),
];

/// What would happen if the pods were deleted now.
const DELETION: [Column<PodReport>; 3] = [
    ("AT MOST", |report| format!("{} s", report.at_most_seconds)),
    ("GRACE", |report| format!("{} s", report.grace_seconds)),
    ("HELD BY", |report| report.held_by.clone().unwrap_or_default()),
];

pub fn pods(reports: &[PodReport], width: Width) -> String {
    let namespace: Column<PodReport> = ("NAMESPACE", |report| report.namespace.clone());
    let mut selected: Vec<Column<PodReport>> = Vec::new();
    selected.extend(width.namespaces.then_some(namespace));
    selected.extend(DEFAULT_COLUMNS);
    if width.deletion {
        selected.extend(DELETION);
    }
    if width.wide {
        selected.extend(WIDE);
    } else if reports.iter().any(|it| it.class == Class::Unreachable || it.gate_unreachable) {
        selected.extend(WIDE.last().copied());
    }
    let cells = |value: fn(&PodReport) -> String| reports.iter().map(value).collect();
    columns(selected.into_iter().map(|(title, value)| (title, cells(value))).collect())
}

pub fn streams(streams: &[PodStream], namespaces: bool) -> String {
    let mut leading: Vec<Column<PodStream>> = Vec::new();
    if namespaces {
        leading.push(("NAMESPACE", |stream| stream.namespace.clone()));
    }
    leading.push(("POD", |stream| stream.pod.clone()));
    text::stream_columns(leading, streams, |stream| &stream.stream)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::answers::answer::Answer;
    use crate::answers::answer::tests::{STREAM, detail};
    use crate::answers::stats::Stats;
    use crate::pods::facts::PodFacts;
    use crate::reports::listing::oldest;

    fn answer(streams: &str, holding: u64) -> Answer {
        Answer::Detail(Box::new(detail(streams, holding)))
    }

    fn pod(name: &str) -> PodFacts {
        PodFacts { namespace: "n".into(), name: name.into(), ready: true, ..PodFacts::default() }
    }

    #[test]
    fn a_table_drops_empty_columns() {
        let page = "laststream_gate_state{} 0\nlaststream_gate_count_exact{} 1\n\
            laststream_streams_in_flight_inbound{} 2\n";
        let reports = [
            PodReport::of(&pod("a"), &Answer::Stats(Stats::read(page))),
            PodReport::of(&pod("b"), &answer(STREAM, 1)),
            PodReport::of(&pod("c"), &Answer::Silent("refused".into())),
        ];
        assert_eq!(
            pods(&reports, Width::default()),
            "POD  LIFE   GATE         COUNT  IN FLIGHT  DRAIN  LEFT  WHY\n\
             a    ready  serving      exact  inbound 2  -      -     -\n\
             b    ready  draining     exact  -          3 s    9 s   -\n\
             c    ready  unreachable  -      -          -      -     refused\n"
        );
    }

    #[test]
    fn streams_of_many_pods_are_sorted_by_age() {
        let young = r#"[{"scope": "inbound", "age_ms": 1000}]"#;
        let answers = [(pod("a"), answer(young, 1)), (pod("b"), answer(STREAM, 1))];
        let all = oldest(&answers, 10);
        assert_eq!(all.iter().map(|s| s.pod.as_str()).collect::<Vec<_>>(), ["b", "a"]);
        assert_eq!(oldest(&answers, 1).len(), 1);
        let written = json!(all[0]);
        let fields = json!({
            "namespace": "n", "pod": "b", "scope": "inbound", "age_ms": 412_000,
            "long_lived": false, "request": "GET /export", "route": "r", "peer": "10.1.2.3",
            "bytes": 0, "newer": 1,
        });
        assert_eq!(written, fields, "as the gate wrote it");
        let table = streams(&all, false);
        assert!(table.starts_with("POD  AGE      SCOPE"), "{table}");
    }
}
