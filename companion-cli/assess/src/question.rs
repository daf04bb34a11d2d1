//! The question that a stop hook asks a gate, by the words of its command: `pilot-agent wait
//! --url=…/prestop --timeoutSeconds=23`, or `laststream prestop --timeout 23s`.

use manifest_text::time_span::milliseconds;

/// What `pilot-agent wait` and `laststream prestop` wait if nothing else is said, in milliseconds.
const AGENT_WAITS: u64 = 60_000;
const PROGRAM_WAITS: u64 = 25_000;

/// See the module.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Question {
    /// The gate's port, if the hook names it.
    pub port: Option<u16>,
    /// How long the hook waits, in milliseconds; none without a limit.
    pub limit: Option<u64>,
}

impl Question {
    /// None: the hook does not ask a gate. It gets a path from its pod, or runs a command.
    #[must_use]
    pub fn of_hook(path: Option<&str>, command: &[&str]) -> Option<Self> {
        match path {
            Some(path) => path.starts_with("/prestop").then_some(Self { port: None, limit: None }),
            None => Self::of(command),
        }
    }

    /// A shell's script is one of the words.
    fn of(command: &[&str]) -> Option<Self> {
        let is_end = |character: char| character.is_whitespace() || character == '=';
        let words = command.iter().flat_map(|word| word.split(is_end));
        let words: Vec<&str> = words.map(|word| word.trim_matches('"')).collect();
        let runs = |program: &str, command: &str| {
            words.iter().skip_while(|word| !word.contains(program)).any(|word| *word == command)
        };
        let names_path = words.iter().any(|word| word.contains("/prestop"));
        if !names_path && !runs("laststream", "prestop") {
            return None;
        }
        let is_option = |word: &&str| matches!(*word, "--timeout" | "--timeoutSeconds");
        let limit = match words.iter().position(is_option) {
            Some(at) => words.get(at + 1).and_then(|value| milliseconds(value)),
            None if runs("pilot-agent", "wait") => Some(AGENT_WAITS),
            None if names_path => None,
            None => Some(PROGRAM_WAITS),
        };
        Some(Self { port: words.iter().find_map(|word| port_in(word)), limit })
    }
}

/// The port in an address such as `http://127.0.0.1:16091/prestop?wait`.
fn port_in(word: &str) -> Option<u16> {
    let (_, rest) = word.split_once("http://127.0.0.1:")?;
    rest.split(|character: char| !character.is_ascii_digit()).next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_names_the_gates_port_and_a_limit() {
        for (command, expected) in [
            ("", None),
            ("sleep 5", None),
            ("laststream wait", None),
            (
                "pilot-agent wait --url=http://127.0.0.1:16091/prestop?wait --timeoutSeconds=23",
                Some((Some(16_091), Some(23_000))),
            ),
            (
                "sh -c exec pilot-agent wait --url=\"http://127.0.0.1:1/prestop?secret=$x\" \
                 --timeoutSeconds=40 --periodMillis=250",
                Some((Some(1), Some(40_000))),
            ),
            (
                "/laststream prestop --gate=http://127.0.0.1:9000 --timeout=1m30s",
                Some((Some(9_000), Some(90_000))),
            ),
            ("laststream prestop", Some((None, Some(25_000)))),
            ("sh -c set -e\nlaststream -q prestop\n", Some((None, Some(25_000)))),
            (
                "pilot-agent wait --url=http://127.0.0.1:9/prestop?wait",
                Some((Some(9), Some(60_000))),
            ),
            ("curl http://127.0.0.1:9/prestop?wait", Some((Some(9), None))),
        ] {
            let expected = expected.map(|(port, limit)| Question { port, limit });
            assert_eq!(Question::of_hook(None, &[command]), expected, "{command}");
        }
    }
}
