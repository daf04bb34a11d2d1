//! The bodies of the gate's answers. Unknown fields and values are accepted, because the module may
//! be of another version.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// `GET /status`.
#[derive(Debug, Clone, Deserialize)]
pub struct Status {
    /// How far the drain is.
    pub state: String,
    /// Why, in words.
    pub reason: String,
    /// How far the counts can be trusted.
    pub count: String,
    /// What would make the count exact.
    pub advice: Option<String>,
    /// Streams that hold the drain.
    pub holding: u64,
    /// Each scope that the gate waits for.
    pub scopes: Vec<Scope>,
    /// How many counters answered.
    #[serde(default)]
    pub counters: u64,
    /// How many do not answer any more.
    #[serde(default)]
    pub lost_counters: u64,
    /// Envoy's own count of requests.
    pub envoy_active: Option<u64>,
    /// Bytes that wait to be written to clients.
    pub buffered_bytes: Option<u64>,
    /// How long nothing has been in flight and nothing began; milliseconds.
    #[serde(default)]
    pub quiet_ms: u64,
    /// How long that must be.
    #[serde(default)]
    pub quiet_needed_ms: u64,
    /// How long the drain has gone on, or went on.
    #[serde(default)]
    pub draining_ms: u64,
    /// How long until the deadline.
    pub deadline_in_ms: Option<u64>,
    /// Streams that began after the drain did.
    #[serde(default)]
    pub late: u64,
    /// How far the call is that makes traffic leave.
    pub begin: Option<String>,
    /// How far the last call is.
    pub finish: Option<String>,
    /// How far the call is that tells the app of the drain.
    pub notify: Option<String>,
    /// A drain of Envoy's configuration.
    pub config_drain: Option<ConfigDrain>,
    /// Whether new streams are refused until the process ends.
    #[serde(default)]
    pub sealed: bool,
    /// Signals that were refused.
    #[serde(default)]
    pub refused: u64,
    /// How often a leaked count was put right.
    #[serde(default)]
    pub heals: u64,
    /// The ends of streams that go on, or will.
    #[serde(default)]
    pub ends: Vec<Ends>,
    /// Streams that were ended since Envoy started.
    #[serde(default)]
    pub evictions: u64,
    /// The module's version.
    #[serde(default)]
    pub version: String,
}

impl Status {
    /// Streams in flight in all scopes. What answers need not be a gate, so sums do not overflow.
    #[must_use]
    pub fn in_flight(&self) -> u64 {
        self.scopes.iter().fold(0, |sum, scope| scope.in_flight.saturating_add(sum))
    }

    /// Whether every counter has answered, and nothing is in flight that no counter knows.
    #[must_use]
    pub fn counts_all(&self) -> bool {
        counts_all(&self.count)
    }

    /// Streams in flight in all scopes, also those that hold nothing: by Envoy's own count, too,
    /// where the filter's does not have all. `None` if neither count is known.
    #[must_use]
    pub fn all_in_flight(&self) -> Option<u64> {
        let counted = self.in_flight();
        if self.counts_all() {
            return Some(counted);
        }
        self.envoy_active.map(|active| active.max(counted))
    }

    /// Whether the gate is open although streams may be in flight.
    #[must_use]
    pub fn gave_up(&self) -> bool {
        matches!(self.state.as_str(), "expired" | "forced")
    }

    /// Streams that hold the drain: by Envoy's own count, too, where the filter's does not have
    /// all. `None` if neither count is known.
    #[must_use]
    pub fn held_streams(&self) -> Option<u64> {
        // A drained gate has just seen that both counts are zero.
        if self.counts_all() || self.state == "drained" {
            return Some(self.holding);
        }
        // Envoy's count also has those that do not hold, such as exempt ones.
        let others = self.in_flight().saturating_sub(self.holding);
        self.envoy_active.map(|active| active.saturating_sub(others).max(self.holding))
    }
}

/// A drain of Envoy's configuration.
#[derive(Debug, Clone, Deserialize)]
pub struct ConfigDrain {
    /// All of it, in words.
    pub reason: String,
    /// Streams in flight that are older than the change.
    pub older: Option<u64>,
    /// How long until Envoy closes streams; milliseconds.
    pub left_ms: Option<u64>,
}

/// Streams that the gate ends.
#[derive(Debug, Clone, Deserialize)]
pub struct Ends {
    /// Whether an operator asked for it.
    #[serde(default)]
    pub on_command: bool,
    /// Whether a change of Envoy's configuration is the reason.
    #[serde(default)]
    pub on_config_change: bool,
    /// The kinds.
    pub kinds: Vec<String>,
    /// How many are left, if a counter has answered.
    pub left: Option<u64>,
    /// When the ends begin; milliseconds.
    pub begins_in_ms: Option<u64>,
    /// How long they are spread from now on; milliseconds.
    pub ends_in_ms: u64,
}

/// The answer to `POST /end`.
#[derive(Debug, Clone, Deserialize)]
pub struct EndOutcome {
    /// What was done, or why not.
    pub reason: String,
    /// How many streams match.
    #[serde(default)]
    pub matching: u64,
    /// How many of them are ended.
    #[serde(default)]
    pub ending: u64,
    /// Those that would be ended first.
    #[serde(default)]
    pub streams: Vec<Stream>,
}

/// The counts of one scope.
#[derive(Debug, Clone, Deserialize)]
pub struct Scope {
    /// The scope's name.
    pub scope: String,
    /// Streams in flight.
    pub in_flight: u64,
    /// Those of them that are long-lived.
    #[serde(default)]
    pub long_lived: u64,
    /// Streams ever begun.
    pub begun: u64,
}

/// `GET /streams`.
#[derive(Debug, Clone, Deserialize)]
pub struct Streams {
    /// How far the drain is.
    pub state: String,
    /// Streams that hold the drain.
    pub holding: u64,
    /// Whether these are all.
    #[serde(default)]
    pub complete: bool,
    /// The oldest first.
    pub streams: Vec<Stream>,
}

/// One stream. It is written again as it was read, with fields that are not known here.
#[derive(Debug, Clone, Default, Deserialize, Serialize)]
pub struct Stream {
    /// The scope in whose count it is.
    pub scope: String,
    /// Its age in milliseconds.
    pub age_ms: u64,
    /// Whether it is long-lived.
    #[serde(default)]
    pub long_lived: bool,
    /// What was asked.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub request: Option<String>,
    /// Such as `HTTP/2`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub protocol: Option<String>,
    /// The name of Envoy's route.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub route: Option<String>,
    /// Where it goes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cluster: Option<String>,
    /// The client.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub peer: Option<String>,
    /// The host that is asked.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub upstream: Option<String>,
    /// The answer's status.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status: Option<u64>,
    /// Bytes of the answer's body so far.
    #[serde(default)]
    pub bytes: u64,
    /// Its kind.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kind: Option<String>,
    /// Whether it is being ended.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub ending: bool,
    /// What a newer module says of it.
    #[serde(flatten)]
    pub other: Map<String, Value>,
}

/// What was done, or why not.
#[derive(Debug, Clone, Deserialize)]
pub struct Outcome {
    /// How far the drain is; empty where the gate tells nothing but why it refuses.
    #[serde(default)]
    pub state: String,
    /// What was done, or why not.
    pub reason: String,
    /// Streams that hold the drain.
    pub holding: Option<u64>,
}

/// Whether a count with this word has all streams. An unknown word counts as one that has not.
#[must_use]
pub fn counts_all(count: &str) -> bool {
    matches!(count, "exact" | "assumed")
}

/// Whether the gate is open in this state. An unknown state counts as closed.
#[must_use]
pub fn is_open(state: &str) -> bool {
    matches!(state, "drained" | "expired" | "forced")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_holds_is_taken_from_envoys_own_count() {
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
