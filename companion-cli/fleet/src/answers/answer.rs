//! The answer of a pod: of its statistics, or of its gate. Pure.

use crate::answers::stats::Stats;
use laststream_gate::text;
use laststream_gate::{Status, Streams};

#[derive(Debug, Clone)]
pub enum Answer {
    /// The pod was not asked, because its proxy does not run.
    Unasked,
    /// The metrics in its statistics.
    Stats(Stats),
    /// The answers of its gate.
    Detail(Box<Detail>),
    /// The pod could not be asked, with the reason.
    Silent(String),
}

impl Answer {
    /// Whether a gate has answered, or its metrics are in the statistics.
    pub(crate) fn has_gate(&self) -> bool {
        match self {
            Self::Stats(stats) => stats.state.is_some(),
            Self::Detail(_) => true,
            Self::Unasked | Self::Silent(_) => false,
        }
    }

    /// All streams in flight. `None` if no count has them all.
    pub fn in_flight(&self) -> Option<u64> {
        match self {
            Self::Detail(detail) => detail.status.all_in_flight(),
            Self::Stats(stats) if stats.counts() && stats.inexact().is_none() => {
                Some(stats.total())
            }
            Self::Stats(_) | Self::Silent(_) | Self::Unasked => None,
        }
    }
}

/// The answers of a pod's gate.
#[derive(Debug, Clone)]
pub struct Detail {
    /// The answer to `GET /status`.
    pub status: Status,
    /// The streams that hold the drain, or why the gate does not list them.
    pub streams: Result<Streams, String>,
}

impl Detail {
    /// The streams that hold a gate, the oldest first, in one line: `holding 2: GET /export, 412 s,
    /// route r, from 10.1.2.3`.
    pub fn held(&self) -> String {
        let (count, reason) = (self.status.holding, text::plain(&self.status.reason));
        match &self.streams {
            _ if count == 0 => reason,
            Err(why) => format!("holding {count} (not listed: {})", text::plain(why)),
            Ok(listed) if listed.streams.is_empty() => format!("holding {count}: {reason}"),
            Ok(listed) => format!("holding {count}: {}", text::oldest(&listed.streams, count)),
        }
    }

    /// A key that stays the same while the same streams hold a gate. A new line is printed when it
    /// changes.
    pub fn held_key(&self) -> String {
        let streams = self.streams.as_ref().map(|streams| streams.streams.as_slice());
        let streams: Vec<String> = streams
            .unwrap_or_default()
            .iter()
            .map(|stream| format!("{:?} {:?} {:?}", stream.request, stream.peer, stream.route))
            .collect();
        format!("{} {} {streams:?}", self.status.state, self.status.holding)
    }
}

/// Why a count is not exact, in short. `laststream status` of the pod explains it in full.
pub(crate) fn reason(count: &str) -> Option<&'static str> {
    Some(match count {
        "asking" => "waiting for the counters or for Envoy",
        "assumed" => "Envoy does not export its own count",
        "partial" => "requests may be in flight that no counter knows",
        "unknown" => "no counter is known: the filter is not there",
        "rejected" => "Envoy's stats matcher rejects a counter",
        "leaking" => "a worker's counter no longer replies",
        "envoy" => "Envoy counts alone, and lists no streams",
        "miscounted" => "the gauges of streams in flight cannot be true",
        _ => return None,
    })
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    pub(crate) fn detail(streams: &str, holding: u64) -> Detail {
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

    pub(crate) const STREAM: &str = r#"[{"scope": "inbound", "age_ms": 412000,
        "request": "GET /export", "route": "r", "peer": "10.1.2.3", "newer": 1,
        "pod": "another"}]"#;

    #[test]
    fn held_streams_are_one_line() {
        assert_eq!(
            detail(STREAM, 2).held(),
            "holding 2: GET /export, 412 s, route r, from 10.1.2.3; and 1 more"
        );
        assert_eq!(detail("[]", 1).held(), "holding 1: 2 streams are in flight");
        assert_eq!(detail("[]", 0).held(), "2 streams are in flight");
        let hostile = r#"[{"scope": "inbound", "age_ms": 1, "request": "GET /\u001b[2J\n/b"}]"#;
        assert!(!detail(hostile, 1).held().contains(['\u{1b}', '\n']));
    }
}
