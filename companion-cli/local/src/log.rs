//! Envoy's log: its last lines, and Envoy's messages about rejected configuration.

use std::path::{Path, PathBuf};

const LONGEST_LINE: usize = 600;

#[derive(Debug, Clone)]
pub(crate) struct Log {
    path: PathBuf,
}

impl Log {
    pub(crate) fn new(path: PathBuf) -> Self {
        Self { path }
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// The length of the log, in bytes.
    pub(crate) fn length(&self) -> usize {
        std::fs::metadata(&self.path)
            .map_or(0, |file| usize::try_from(file.len()).unwrap_or(usize::MAX))
    }

    /// The last lines, without the list of extensions.
    pub(crate) fn tail(&self, lines: usize) -> String {
        tail(&self.text(0), lines)
    }

    /// Why Envoy rejected an update, from the log after this position.
    pub(crate) fn refusal(&self, since: usize) -> Option<String> {
        refusal(&self.text(since))
    }

    pub(crate) fn complaints(&self, lines: usize) -> Vec<String> {
        let text = self.text(0);
        let all: Vec<&str> = text
            .lines()
            .filter(|line| line.contains("[critical]") || line.contains("[error]"))
            .collect();
        all.iter().rev().take(lines).rev().map(ToString::to_string).collect()
    }

    fn text(&self, since: usize) -> String {
        let bytes = std::fs::read(&self.path).unwrap_or_default();
        String::from_utf8_lossy(bytes.get(since..).unwrap_or_default()).into_owned()
    }
}

/// The last lines, without the list of extensions with which every Envoy's log begins.
fn tail(log: &str, lines: usize) -> String {
    let telling = |line: &&str| {
        !(line.contains("[info][main]") && (line.contains("]   ") || line.contains(" header map")))
    };
    let short = |line: &str| line.chars().take(LONGEST_LINE).collect::<String>();
    let all: Vec<String> = log.lines().filter(telling).map(short).collect();
    all[all.len().saturating_sub(lines)..].join("\n")
}

/// Why Envoy rejected a configuration: the module's own message if there is one, else Envoy's.
fn refusal(log: &str) -> Option<String> {
    let after = |mark: &str| {
        log.lines()
            .rev()
            .find_map(|line| line.split_once(mark).map(|(_, words)| words.trim().to_owned()))
    };
    let reason = after("configuration refused: ").or_else(|| after("] wasm log: panicked"));
    reason.or_else(|| {
        after("rejected: ").or_else(|| after("Failed to load ")).or_else(|| after("[critical]"))
    })
}

#[cfg(test)]
mod tests {
    use super::{refusal, tail};

    #[test]
    fn the_tail_leaves_out_the_list_of_extensions() {
        let log = "[info][main] [a.cc]   envoy.filters\nfirst\nsecond\n[info][main] [a.cc] request \
            header map: 6\nthird\n";
        assert_eq!(tail(log, 2), "second\nthird");
        assert_eq!(tail(log, 9), "first\nsecond\nthird");
        assert_eq!(tail("", 9), "");
    }

    #[test]
    fn the_modules_message_comes_before_envoys() {
        let log = "[1][error][wasm] wasm log laststream: configuration refused: scope: \
            no\n[1][warning] update rejected: Unable to create\n";
        assert_eq!(refusal(log).as_deref(), Some("scope: no"));
        assert_eq!(refusal("all is well\n"), None);
    }
}
