//! Reports on pods and streams as text. Pure; every name stays on its line.

use super::ask::Detail;
use super::listing::PodStream;
use super::pod_report::{Class, PodReport};
use laststream_gate::text::{Column, columns, if_any};
use laststream_gate::{Stream, text};

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
    let mut shown: Vec<Column<PodReport>> = Vec::new();
    shown.extend(width.namespaces.then_some(namespace));
    shown.extend(DEFAULT_COLUMNS);
    if width.deletion {
        shown.extend(DELETION);
    }
    if width.wide {
        shown.extend(WIDE);
    } else if reports.iter().any(|it| it.class == Class::Unreachable || it.gate_unreachable) {
        shown.extend(WIDE.last().copied());
    }
    let cells = |value: fn(&PodReport) -> String| reports.iter().map(value).collect();
    columns(shown.into_iter().map(|(title, value)| (title, cells(value))).collect())
}

pub fn streams(streams: &[PodStream], namespaces: bool) -> String {
    let mut shown: Vec<Column<PodStream>> = Vec::new();
    if namespaces {
        shown.push(("NAMESPACE", |stream| stream.namespace.clone()));
    }
    shown.push(("POD", |stream| stream.pod.clone()));
    text::stream_columns(shown, streams, |stream| &stream.stream)
}

/// The streams that hold a gate, the oldest first, in one line: `holding 2: GET /export, 412 s,
/// route r, from 10.1.2.3`.
pub fn held(detail: &Detail, most: usize) -> String {
    let count = detail.status.holding;
    if count == 0 {
        return text::plain(&detail.status.reason);
    }
    let streams = match &detail.streams {
        Ok(streams) => &streams.streams,
        Err(why) => return format!("holding {count} (not listed: {})", text::plain(why)),
    };
    let shown: Vec<String> = streams.iter().take(most).map(stream).collect();
    if shown.is_empty() {
        return format!("holding {count}: {}", text::plain(&detail.status.reason));
    }
    let listed = u64::try_from(shown.len()).unwrap_or(u64::MAX);
    let more = count.saturating_sub(listed);
    let more = if_any(more, format!("; and {more} more"));
    format!("holding {count}: {}{more}", shown.join("; "))
}

/// A key that stays the same while the same streams hold a gate. A new line is printed when it
/// changes.
pub fn held_key(detail: &Detail) -> String {
    let streams = detail.streams.as_ref().map(|streams| streams.streams.as_slice());
    let streams: Vec<String> = streams
        .unwrap_or_default()
        .iter()
        .map(|stream| format!("{:?} {:?} {:?}", stream.request, stream.peer, stream.route))
        .collect();
    format!("{} {} {streams:?}", detail.status.state, detail.status.holding)
}

fn stream(stream: &Stream) -> String {
    let what = match (&stream.request, &stream.protocol) {
        (Some(request), _) => request.clone(),
        (None, Some(protocol)) => format!("{protocol} {}", stream.scope),
        (None, None) => stream.scope.clone(),
    };
    let mut parts = vec![text::plain(&what), format!("{} s", stream.age_ms / 1000)];
    if stream.long_lived {
        parts.push("long-lived".to_owned());
    }
    for (name, value) in
        [("route", &stream.route), ("from", &stream.peer), ("to", &stream.upstream)]
    {
        if let Some(value) = value {
            parts.push(format!("{name} {}", text::plain(value)));
        }
    }
    parts.join(", ")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::listing::oldest;
    use crate::pod_report::Answer;
    use crate::pods::PodFacts;
    use crate::stats::Stats;

    fn answer(streams: &str, holding: u64) -> Answer {
        Answer::Detail(Box::new(detail(streams, holding)))
    }

    fn detail(streams: &str, holding: u64) -> Detail {
        let status = format!(
            r#"{{"state": "draining", "reason": "2 streams are in flight",
            "count": "exact", "holding": {holding}, "scopes": [], "deadline_in_ms": 9000,
            "draining_ms": 3000, "version": "1"}}"#
        );
        let streams =
            format!(r#"{{"state": "draining", "holding": {holding}, "streams": {streams}}}"#);
        Detail {
            status: serde_json::from_str(&status).unwrap(),
            streams: Ok(serde_json::from_str(&streams).unwrap()),
        }
    }

    fn pod(name: &str) -> PodFacts {
        PodFacts { namespace: "n".into(), name: name.into(), ready: true, ..PodFacts::default() }
    }

    const STREAM: &str = r#"[{"scope": "inbound", "age_ms": 412000, "request": "GET /export",
        "route": "r", "peer": "10.1.2.3", "newer": 1, "pod": "another"}]"#;

    #[test]
    fn held_streams_are_one_line() {
        assert_eq!(
            held(&detail(STREAM, 2), 3),
            "holding 2: GET /export, 412 s, route r, from 10.1.2.3; and 1 more"
        );
        assert_eq!(held(&detail("[]", 1), 3), "holding 1: 2 streams are in flight");
        assert_eq!(held(&detail("[]", 0), 3), "2 streams are in flight");
        let hostile = r#"[{"scope": "inbound", "age_ms": 1, "request": "GET /\u001b[2J\n/b"}]"#;
        assert!(!held(&detail(hostile, 1), 3).contains(['\u{1b}', '\n']));
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
