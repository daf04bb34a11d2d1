//! The program as a plugin of kubectl: `kubectl-laststream`, and `kubectl_complete-laststream` for
//! its completion.

use std::ffi::OsString;
use std::path::Path;

use clap::Command;

/// The name under which the program was called.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CalledAs {
    Itself,
    /// `kubectl laststream`.
    Plugin,
    /// The program that kubectl runs to complete a plugin's arguments.
    Completer,
}

impl CalledAs {
    /// Decides by the program's name, which is the first argument of the process.
    pub(crate) fn of(program: Option<&OsString>) -> Self {
        let name = program.and_then(|program| Path::new(program).file_stem());
        match name.and_then(|name| name.to_str()) {
            Some("kubectl-laststream") => Self::Plugin,
            Some("kubectl_complete-laststream") => Self::Completer,
            _ => Self::Itself,
        }
    }

    /// The command with the name that the user typed.
    pub(crate) fn name(self, command: Command) -> Command {
        if self == Self::Plugin { command.bin_name("kubectl laststream") } else { command }
    }

    /// Rewrites the examples of a help text as the user types them.
    pub(crate) fn help(self, text: String) -> String {
        let typed = |text: String| text.replace("\n  laststream ", "\n  kubectl laststream ");
        if self == Self::Plugin { typed(text) } else { text }
    }
}

/// The completions of the last word, one a line, and the directive with which cobra, kubectl's own
/// library, ends its list: 4 means that file names are no candidates.
pub(crate) fn candidates(command: &Command, words: &[String]) -> String {
    let (last, before) = words.split_last().map_or(("", words), |(last, rest)| (last, rest));
    let mut here = command;
    for word in before {
        here = here.find_subcommand(word).unwrap_or(here);
    }
    let flags = here.get_arguments().filter_map(|argument| argument.get_long());
    let flags = flags.map(|name| format!("--{name}"));
    let verbs = here.get_subcommands().map(|inner| inner.get_name().to_owned());
    let values = here.get_positionals().flat_map(|argument| argument.get_possible_values());
    let words = verbs.chain(values.map(|value| value.get_name().to_owned()));
    let all: Vec<String> = if last.starts_with('-') { flags.collect() } else { words.collect() };
    let fitting = all.into_iter().filter(|candidate| candidate.starts_with(last));
    let lines: Vec<String> = fitting.collect();
    let directive = if lines.is_empty() { 0 } else { 4 };
    lines.into_iter().map(|line| format!("{line}\n")).collect::<String>() + &format!(":{directive}")
}

#[cfg(test)]
mod tests {
    use super::candidates;
    use crate::cli::Arguments;

    #[test]
    fn verbs_and_options_are_completed() {
        let of = |words: &[&str]| {
            let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
            candidates(&Arguments::shown(), &words)
        };
        assert_eq!(of(&["roll"]), "rollout\n:4");
        assert_eq!(of(&["status", "--sel"]), "--selector\n:4");
        assert_eq!(of(&["render", "overl"]), "overlay\n:4");
        assert_eq!(of(&["status", "x"]), ":0");
        assert!(!of(&[""]).contains("guarded"));
    }
}
