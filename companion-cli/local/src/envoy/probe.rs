//! Determines the version of a binary.

use super::Version;
use laststream_base::children::{ProgramError, run};
use laststream_base::env_vars;
use std::io;
use std::path::Path;
use std::time::Duration;

/// The version that a binary reports.
pub(crate) struct Identity {
    pub(crate) version: Version,
    /// The version as reported. Istio's builds and those between releases add a suffix such as
    /// `-dev`.
    pub(crate) version_text: String,
}

pub(crate) fn identify(binary: &Path, limit: Duration) -> Result<Identity, String> {
    let output = run(env_vars::command(binary).arg("--version"), limit, &mut || {});
    let output = output.map_err(|failed| match failed {
        ProgramError::Time(after) => {
            format!("it did not answer within {} s when asked for its version", after.as_secs_f32())
        }
        // The file exists, so the interpreter or loader that it names is missing.
        ProgramError::Start(error) if error.kind() == io::ErrorKind::NotFound => {
            "it cannot be started: its interpreter or loader is missing (a build for glibc does \
                not run on musl)"
                .to_owned()
        }
        ProgramError::Start(error) => format!("it cannot be started: {error}"),
    })?;
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let stdout = text(&output.stdout);
    identity(&stdout).ok_or_else(|| {
        let text = brief(&format!("{stdout}\n{}", text(&output.stderr)));
        format!("it does not answer as Envoy does, but `{text}`")
    })
}

/// Reads `/usr/bin/envoy version: <commit>/1.40.0/Clean/RELEASE/BoringSSL`.
fn identity(stdout: &str) -> Option<Identity> {
    let (_, line) = stdout.lines().find_map(|line| line.split_once(" version: "))?;
    let version_text = line.trim().split('/').nth(1)?;
    let numbers = version_text.split(['-', '+']).next()?;
    Some(Identity { version: numbers.parse().ok()?, version_text: version_text.to_owned() })
}

/// The end of a program's output, in one line.
pub(crate) fn brief(output: &str) -> String {
    let words: Vec<&str> = output.split_whitespace().collect();
    let line = words.join(" ");
    let start = line.char_indices().rev().nth(399).map_or(0, |(index, _)| index);
    line.get(start..).unwrap_or_default().to_owned()
}

#[cfg(test)]
mod tests {
    use super::brief;

    #[test]
    fn brief_keeps_the_end_and_whole_characters() {
        assert_eq!(brief(" a\n\n b "), "a b");
        assert_eq!(brief(&"ü".repeat(1000)).chars().count(), 400);
    }
}
