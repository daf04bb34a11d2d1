//! The bodies of the gate's answers. Unknown fields and values are accepted, because the module may
//! be of another version.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// `GET /status`.
#[derive(Debug, Clone, Deserialize)]
pub struct Status {
    pub state: String,
    pub reason: String,
    /// The word for how far the counts can be believed, such as `exact`.
    pub count: String,
    /// Advice on how to make the count exact.
    pub advice: Option<String>,
    /// Streams that hold the drain.
    pub holding: u64,
    /// The scopes that the gate waits for.
    pub scopes: Vec<Scope>,
    #[serde(default)]
    pub counters: u64,
    /// The number of counters that no longer answer.
    #[serde(default)]
    pub lost_counters: u64,
    /// The counters whose answers are late, in words.
    pub late_counters: Option<String>,
    /// Envoy's own count of requests.
    pub envoy_active: Option<u64>,
    /// Open TCP connections, if they hold the drain.
    pub connections: Option<u64>,
    /// Bytes that wait to be written to clients.
    pub buffered_bytes: Option<u64>,
    /// The time for which nothing has been in flight and nothing began, in milliseconds.
    #[serde(default)]
    pub quiet_ms: u64,
    /// The quiet period: the value of `quiet_ms` that the gate waits for.
    #[serde(default)]
    pub quiet_needed_ms: u64,
    /// The duration of the drain so far or in all, in milliseconds.
    #[serde(default)]
    pub draining_ms: u64,
    /// The time until the deadline, in milliseconds.
    pub deadline_in_ms: Option<u64>,
    /// Streams that began after the drain did.
    #[serde(default)]
    pub late: u64,
    /// The progress of the call that makes traffic leave.
    pub begin: Option<String>,
    /// The progress of the last call.
    pub finish: Option<String>,
    /// The progress of the call that notifies the app of the drain.
    pub notify: Option<String>,
    /// Whether new streams are refused until the process ends.
    #[serde(default)]
    pub sealed: bool,
    #[serde(default)]
    pub refused: u64,
    /// The number of times that a leaked count was healed.
    #[serde(default)]
    pub heals: u64,
    /// The streams that the gate ends now, or will end.
    pub ends: Option<Ends>,
    /// The number of streams that the gate has ended since Envoy started.
    #[serde(default)]
    pub evictions: u64,
    #[serde(default)]
    pub version: String,
}

impl Status {
    /// Streams in flight in all scopes. The sum saturates, because the answer may come from another
    /// program than a gate.
    pub fn in_flight(&self) -> u64 {
        self.scopes.iter().fold(0, |sum, scope| scope.in_flight.saturating_add(sum))
    }

    /// Whether the count has all streams: it is `exact`, or `assumed` to be.
    pub fn counts_all(&self) -> bool {
        counts_all(&self.count)
    }

    /// Streams in flight in all scopes, including those that do not hold the drain. If the filter's
    /// count does not have all streams, Envoy's own count is used, too. `None` if neither count is
    /// known.
    pub fn all_in_flight(&self) -> Option<u64> {
        let counted = self.in_flight();
        if self.counts_all() {
            return Some(counted);
        }
        self.envoy_active.map(|active| active.max(counted))
    }

    /// Whether the gate is open although streams may be in flight.
    pub fn gave_up(&self) -> bool {
        matches!(self.state.as_str(), "expired" | "forced")
    }

    /// Streams, and TCP connections, that hold the drain. If the filter's count does not have all
    /// streams, Envoy's own count is used, too. `None` if neither count is known.
    pub fn held_streams(&self) -> Option<u64> {
        let connections = self.connections.unwrap_or_default();
        self.streams_alone().map(|streams| streams.saturating_add(connections))
    }

    fn streams_alone(&self) -> Option<u64> {
        // A gate is `drained` only after both counts were zero.
        if self.counts_all() || self.state == "drained" {
            return Some(self.holding);
        }
        // Envoy's count includes streams that do not hold the drain, such as exempt ones.
        let rest = self.in_flight().saturating_sub(self.holding);
        self.envoy_active.map(|active| active.saturating_sub(rest).max(self.holding))
    }
}

/// The streams that the gate ends before the deadline.
#[derive(Debug, Clone, Deserialize)]
pub struct Ends {
    pub kinds: Vec<String>,
    /// The number of streams that are left, if a counter has answered.
    pub left: Option<u64>,
    /// The time until the first stream is ended, in milliseconds.
    pub begins_in_ms: Option<u64>,
    /// The time from now on over which the ends are spread, in milliseconds.
    pub ends_in_ms: u64,
}

#[derive(Debug, Clone, Deserialize)]
pub struct Scope {
    pub scope: String,
    pub in_flight: u64,
    #[serde(default)]
    pub long_lived: u64,
    pub begun: u64,
}

/// `GET /streams`.
#[derive(Debug, Clone, Deserialize)]
pub struct Streams {
    pub state: String,
    /// Streams that hold the drain.
    pub holding: u64,
    #[serde(default)]
    pub complete: bool,
    pub streams: Vec<Stream>,
    /// Where Envoy alone counts.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub clusters: Vec<ClusterRequests>,
}

/// The requests in flight to one cluster.
#[derive(Debug, Clone, Deserialize, Serialize)]
pub struct ClusterRequests {
    pub cluster: String,
    pub requests: u64,
}

/// One stream. When it is serialized, it keeps fields that are not known here.
#[derive(Debug, Clone, Default, Deserialize, Serialize)]
pub struct Stream {
    /// The scope in whose count it is.
    pub scope: String,
    /// Its age in milliseconds.
    pub age_ms: u64,
    #[serde(default)]
    pub long_lived: bool,
    /// The request, such as `GET /export`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub request: Option<String>,
    /// The protocol, such as `HTTP/2`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub protocol: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub route: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cluster: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub peer: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub upstream: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status: Option<u64>,
    /// Bytes of the response's body so far.
    #[serde(default)]
    pub bytes: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kind: Option<String>,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub ending: bool,
    /// Fields of a newer module.
    #[serde(flatten)]
    pub other: Map<String, Value>,
}

/// The answer to a command, a stop hook or a readiness request.
#[derive(Debug, Clone, Deserialize, Serialize)]
pub struct Outcome {
    /// The gate's state; empty in a refusal that has only a reason.
    #[serde(default)]
    pub state: String,
    /// The gate's action, or why it refused, in words.
    pub reason: String,
    /// Streams that hold the drain.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub holding: Option<u64>,
}

/// Whether a count with this word has all streams. An unknown word counts as one that has not.
pub fn counts_all(count: &str) -> bool {
    matches!(count, "exact" | "assumed")
}

/// Whether the gate is open in this state. An unknown state counts as closed.
pub fn is_open(state: &str) -> bool {
    matches!(state, "drained" | "expired" | "forced")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn streams_that_do_not_hold_are_subtracted_from_envoys_own_count() {
        let of = |count: &str, envoy_active: Option<u64>| {
            let scopes = serde_json::json!([{
                "scope": "gateway", "in_flight": 3, "long_lived": 3, "begun": 9
            }]);
            let status = serde_json::json!({
                "state": "draining", "reason": "", "count": count, "holding": 0,
                "scopes": scopes, "envoy_active": envoy_active
            });
            serde_json::from_value::<Status>(status).unwrap().held_streams()
        };
        assert_eq!(of("exact", Some(3)), Some(0));
        assert_eq!(of("partial", Some(4)), Some(1), "three are exempt");
        assert_eq!(of("leaking", Some(2)), Some(0));
        assert_eq!(of("partial", None), None);
    }
}
