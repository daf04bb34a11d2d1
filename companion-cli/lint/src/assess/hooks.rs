//! How long a stop hook takes.

use laststream_assess::{Hook as Taken, ProxyGate, Question};
use laststream_base::time_span::milliseconds;

use manifest_lint::{Hook, Node};

const SHELLS: [&str; 4] = ["sh", "bash", "ash", "dash"];

/// How long a stop hook takes, as far as it says that.
pub(super) fn time_of(hook: Node<'_>) -> Taken {
    if hook.entries().next().is_none() {
        return Taken::None;
    }
    if let Some(seconds) = hook.fields("sleep.seconds") {
        return seconds
            .number()
            .map_or(Taken::Other, |seconds| Taken::Sleep(seconds.saturating_mul(1000)));
    }
    let mut words = Hook { node: hook }.words();
    let name = |word: &str| word.rsplit('/').next().unwrap_or_default().to_owned();
    if words.first().is_some_and(|word| SHELLS.contains(&name(word).as_str())) {
        words.drain(..words.len().min(2)); // `sh -c`
    }
    match words.as_slice() {
        [program, time] if name(program) == "sleep" => {
            milliseconds(time).map_or(Taken::Other, Taken::Sleep)
        }
        _ => Taken::Other,
    }
}

/// The gate that a stop hook asks, with the time that the hook waits for it.
pub(super) fn gate_of(hook: Node<'_>) -> Option<ProxyGate> {
    let question = Question::of_hook(hook.text_of("httpGet.path"), &Hook { node: hook }.words())?;
    let deadline = question.limit.unwrap_or(u64::MAX);
    Some(ProxyGate { deadline, is_started_by_agent: false })
}

/// Whether this is the hook by which Istio keeps a native sidecar.
pub(super) fn is_istios(hook: Node<'_>) -> bool {
    let words = Hook { node: hook }.words();
    words.first().is_some_and(|word| word.ends_with("pilot-agent"))
        && words.get(1) == Some(&"request")
        && words.ends_with(&["POST", "drain"])
}
