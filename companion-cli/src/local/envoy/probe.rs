//! Determines the version of a binary, and whether it can run Wasm modules.
//!
//! A build without V8 has the same extensions and the same texts in it as one with V8, so only a
//! trial shows the difference: `--mode validate` with the smallest possible module. The trial takes
//! 0.05 s and needs no port and no file.

use super::{EnvoySourceError, Version};
use crate::base::children::{ProgramError, run};
use crate::base::env_vars;
use std::io;
use std::path::Path;
use std::time::Duration;

/// The version that a binary reports.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Identity {
    pub(crate) version: Version,
    /// The version as reported. Istio's builds and those between releases add a suffix such as
    /// `-dev`.
    pub(crate) version_text: String,
    /// The whole line with the version and the commit, which differs between builds.
    pub(crate) line: String,
}

impl Identity {
    /// Whether the version has no suffix, as in a release.
    pub(crate) fn is_release(&self) -> bool {
        self.version.to_string() == self.version_text
    }
}

/// The output of a program.
struct ProgramOutput {
    success: bool,
    stdout: String,
    stderr: String,
}

/// Asks a binary for its version.
pub(crate) fn identify(binary: &Path, limit: Duration) -> Result<Identity, EnvoySourceError> {
    let ended = output_of(binary, &["--version"], "version", limit)?;
    identity(&ended.stdout).ok_or_else(|| {
        EnvoySourceError::NotEnvoy(brief(&format!("{}\n{}", ended.stdout, ended.stderr)))
    })
}

/// Reads `/usr/bin/envoy version: <commit>/1.40.0/Clean/RELEASE/BoringSSL`.
fn identity(stdout: &str) -> Option<Identity> {
    let (_, line) = stdout.lines().find_map(|line| line.split_once(" version: "))?;
    let version_text = line.trim().split('/').nth(1)?;
    let numbers = version_text.split(['-', '+']).next()?;
    Some(Identity {
        version: numbers.parse().ok()?,
        version_text: version_text.to_owned(),
        line: line.trim().to_owned(),
    })
}

/// Whether a binary can run Wasm modules.
pub(crate) fn has_v8(binary: &Path, limit: Duration) -> Result<bool, EnvoySourceError> {
    let config = with_module();
    let ended = output_of(
        binary,
        &["--mode", "validate", "--log-level", "warning", "--config-yaml", &config],
        "Wasm runtime",
        limit,
    )?;
    if ended.success {
        return Ok(true);
    }
    // The second text comes from builds that leave out the whole Wasm filter.
    let refusals =
        ["Envoy was compiled without support for it", "Didn't find a registered implementation"];
    if refusals.iter().any(|refusal| ended.stderr.contains(refusal)) {
        return Ok(false);
    }
    Err(EnvoySourceError::Unclear(brief(&ended.stderr)))
}

fn output_of(
    binary: &Path,
    arguments: &[&str],
    question: &'static str,
    limit: Duration,
) -> Result<ProgramOutput, EnvoySourceError> {
    let ended = run(env_vars::command(binary).args(arguments), limit, &mut || {});
    let ended = ended.map_err(|failed| match failed {
        ProgramError::Time(after) => EnvoySourceError::NoAnswer { question, after },
        ProgramError::Start(error) => EnvoySourceError::Start(match error.kind() {
            // The file exists, so the interpreter or loader that it names is missing.
            io::ErrorKind::NotFound => {
                "its interpreter or loader is missing (a build for glibc does not run on musl)"
                    .to_owned()
            }
            _ => error.to_string(),
        }),
    })?;
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    Ok(ProgramOutput {
        success: ended.status.success(),
        stdout: text(&ended.stdout),
        stderr: text(&ended.stderr),
    })
}

/// The smallest module that Envoy takes: `proxy_abi_version_0_2_1`, `malloc` and a memory.
const MODULE: &str = concat!(
    "AGFzbQEAAAABCQJgAABgAX8BfwMDAgABBQMBAAEHLQMXcHJveHlfYWJp",
    "X3ZlcnNpb25fMF8yXzEAAAZtYWxsb2MAAQZtZW1vcnkCAAoJAgIACwQA",
    "QQAL"
);

const HCM: &str = concat!(
    "type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3.",
    "HttpConnectionManager"
);

fn with_module() -> String {
    let wasm = serde_json::json!({
        "@type": "type.googleapis.com/envoy.extensions.filters.http.wasm.v3.Wasm",
        "config": { "vm_config": {
            "runtime": "envoy.wasm.runtime.v8",
            "code": { "local": { "inline_bytes": MODULE } },
        } },
    });
    let router = serde_json::json!({
        "@type": "type.googleapis.com/envoy.extensions.filters.http.router.v3.Router",
    });
    let manager = serde_json::json!({
        "@type": HCM,
        "stat_prefix": "probe",
        "route_config": {},
        "http_filters": [
            { "name": "wasm", "typed_config": wasm },
            { "name": "router", "typed_config": router },
        ],
    });
    let listener = serde_json::json!({
        "name": "probe",
        "address": { "socket_address": { "address": "127.0.0.1", "port_value": 0 } },
        "filter_chains": [{ "filters": [{ "name": "manager", "typed_config": manager }] }],
    });
    serde_json::json!({ "static_resources": { "listeners": [listener] } }).to_string()
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
    use super::*;

    #[test]
    fn the_version_is_read_from_envoys_output() {
        let output = "\n/usr/bin/envoy  version: \
            9e5580933739775e8bce696a57a2e1bc99368f23/1.40.0/Clean/RELEASE/BoringSSL\n\n";
        let read = identity(output).unwrap();
        assert_eq!((read.version, read.is_release()), (Version::new(1, 40, 0), true));
        let read = identity("envoy  version: abc/1.37.0-dev/Modified/DEBUG/BoringSSL").unwrap();
        assert_eq!(
            (read.version, read.version_text.as_str(), read.is_release()),
            (Version::new(1, 37, 0), "1.37.0-dev", false)
        );
        for other in ["", "envoy version 1.40.0", "go version: 1.40.0", "x version: a/b/c"] {
            assert_eq!(identity(other), None, "{other}");
        }
    }

    #[test]
    fn brief_keeps_the_end_and_whole_characters() {
        assert_eq!(brief(" a\n\n b "), "a b");
        assert_eq!(brief(&"ü".repeat(1000)).chars().count(), 400);
    }
}
