//! The stop hook of a proxy: whether it asks the gate, on which port, and for how long; and how
//! long Istio's agent waits where there is none. Pure.

use k8s_openapi::api::core::v1::{Container, LifecycleHandler};

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
        let Some(hook) = stop_hook(proxy) else { return Self::Missing };
        if let Some(get) = &hook.http_get {
            let asks_gate = get.path.as_deref().is_some_and(|path| path.starts_with("/prestop"));
            return if asks_gate { Self::Untimed } else { Self::Other };
        }
        let Some(exec) = &hook.exec else { return Self::Other }; // such as `sleep`
        let words: Vec<&str> = exec.command.iter().flatten().map(String::as_str).collect();
        of_command(&words.join(" "))
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

/// The gate's port in a stop hook, such as `http://127.0.0.1:16091/prestop?wait`.
pub(crate) fn gate_port(proxy: &Container) -> Option<u16> {
    let words = stop_hook(proxy)?.exec.as_ref()?.command.iter().flatten();
    words.flat_map(|word| word.split_once("http://127.0.0.1:")).find_map(|(_, rest)| {
        let digits = rest.find(|character: char| !character.is_ascii_digit());
        rest.get(..digits.unwrap_or(rest.len()))?.parse().ok()
    })
}

/// Reads a command such as `pilot-agent wait --url=…/prestop --timeoutSeconds=23` or `laststream
/// prestop --timeout 23s`.
fn of_command(command: &str) -> Hook {
    let runs_program = command.contains("laststream") && command.contains(" prestop");
    if !runs_program && !command.contains("/prestop") {
        return if command.is_empty() { Hook::Missing } else { Hook::Other };
    }
    let mut words = command.split([' ', '=']).map(|word| word.trim_matches('"'));
    while let Some(word) = words.next() {
        let time = match word {
            "--timeoutSeconds" => words.next().and_then(|value| value.parse().ok()),
            "--timeout" => words.next().and_then(|value| {
                let limit: TimeSpan = value.parse().ok()?;
                Some(limit.whole_seconds())
            }),
            _ => continue,
        };
        return time.map_or(Hook::Untimed, Hook::Within);
    }
    // The defaults of `pilot-agent wait` and `laststream prestop`.
    match (command.contains("pilot-agent wait"), command.contains("/prestop")) {
        (true, _) => Hook::Within(60),
        (false, true) => Hook::Untimed,
        (false, false) => Hook::Within(25),
    }
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
    fn the_command_names_the_gates_port() {
        let of = |command: &[&str]| gate_port(&proxy(&json!({ "exec": { "command": command } })));
        let shell = "pilot-agent wait --url=http://127.0.0.1:9001/prestop?wait=10s";
        assert_eq!(of(&["sh", "-c", shell]), Some(9001));
        let own = ["/laststream", "prestop", "--gate=http://127.0.0.1:9000", "--timeout=24s"];
        assert_eq!(of(&own), Some(9000));
        assert_eq!(of(&["sleep", "5"]), None);
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

    #[test]
    fn a_hook_command_gives_its_time_limit() {
        for (command, expected) in [
            ("", Hook::Missing),
            ("sleep 5", Hook::Other),
            (
                "pilot-agent wait --url=http://127.0.0.1:16091/prestop?wait --timeoutSeconds=23",
                Hook::Within(23),
            ),
            (
                "sh -c exec pilot-agent wait --url=\"http://127.0.0.1:1/prestop?secret=$x\" \
                --timeoutSeconds=40 --periodMillis=250",
                Hook::Within(40),
            ),
            ("/usr/local/bin/laststream prestop --timeout 1m30s", Hook::Within(90)),
            ("laststream prestop", Hook::Within(25)),
            ("laststream wait", Hook::Other),
            ("pilot-agent wait --url=http://127.0.0.1:16091/prestop?wait", Hook::Within(60)),
            ("curl http://127.0.0.1:16091/prestop?wait", Hook::Untimed),
        ] {
            assert_eq!(of_command(command), expected, "{command}");
        }
    }
}
