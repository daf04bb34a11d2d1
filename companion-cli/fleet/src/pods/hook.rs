//! The stop hook of a proxy: whether it asks the gate, on which port, and for how long; and how
//! long Istio's agent waits where there is none. Pure.

use k8s_openapi::api::core::v1::{Container, LifecycleHandler};

use laststream_assess::Question;
use laststream_base::time_span::TimeSpan;

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Hook {
    /// There is no stop hook, and no annotation that lets Istio's agent wait.
    #[default]
    Missing,
    /// The stop hook does not ask the gate.
    Other,
    /// The stop hook asks the gate, and names no time limit.
    Untimed,
    /// The stop hook asks the gate for at most this many seconds, or without one Istio's agent
    /// waits for as long.
    Within(u64),
}

impl Hook {
    pub(crate) fn of(proxy: &Container) -> Self {
        match question(proxy).map(|question| question.limit) {
            None if stop_hook(proxy).is_none() => Self::Missing,
            None => Self::Other,
            Some(None) => Self::Untimed,
            Some(Some(millis)) => Self::Within(millis.div_ceil(1_000)),
        }
    }
}

/// The setting of Istio's agent in the annotation of a pod.
const AGENT_WAITS: &str = "terminationDrainDuration";

/// A pod without a stop hook, by its annotation with the settings of the proxy.
pub(crate) fn without(config: &str) -> Hook {
    let value = config.split_once(AGENT_WAITS).map(|(_, rest)| rest).unwrap_or_default();
    let value = value.trim_start_matches(['"', ':', ' ']);
    let end = value.find(|character: char| !character.is_ascii_alphanumeric());
    let time = value.get(..end.unwrap_or(value.len())).and_then(|text| text.parse().ok());
    time.map_or(Hook::Missing, |time: TimeSpan| Hook::Within(time.whole_seconds()))
}

fn stop_hook(proxy: &Container) -> Option<&LifecycleHandler> {
    proxy.lifecycle.as_ref()?.pre_stop.as_ref()
}

/// What the stop hook asks the gate.
pub(crate) fn question(proxy: &Container) -> Option<Question> {
    let hook = stop_hook(proxy)?;
    let path = hook.http_get.as_ref().map(|get| get.path.as_deref().unwrap_or_default());
    let command = hook.exec.iter().flat_map(|exec| exec.command.iter().flatten());
    Question::of_hook(path, &command.map(String::as_str).collect::<Vec<_>>())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn proxy(hook: &serde_json::Value) -> Container {
        let container = json!({ "name": "istio-proxy", "lifecycle": { "preStop": hook } });
        serde_json::from_value(container).unwrap()
    }

    #[test]
    fn istios_agent_waits_where_there_is_no_hook() {
        for (config, expected) in [
            ("terminationDrainDuration: 28s\ndrainDuration: 45s", Hook::Within(28)),
            ("{\"terminationDrainDuration\": \"66s\"}", Hook::Within(66)),
            ("drainDuration: 45s", Hook::Missing),
            ("terminationDrainDuration: soon", Hook::Missing),
            ("", Hook::Missing),
        ] {
            assert_eq!(without(config), expected, "{config}");
        }
    }

    #[test]
    fn a_sleep_action_is_a_stop_hook() {
        assert_eq!(Hook::of(&proxy(&json!({ "sleep": { "seconds": 10 } }))), Hook::Other);
    }
}
