//! Credential helpers: `docker-credential-NAME get` reads the registry from standard input and
//! writes JSON to standard output.

use std::io::{Read as _, Write as _};
use std::path::PathBuf;
use std::process::{ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use serde::Deserialize;

use super::{Login, Sources, login};
use laststream_base::children::{self, Child, Group};
use laststream_base::env_vars;
use laststream_base::parse_error::ParseError;

/// The limit on the helper's output.
const LARGEST_OUTPUT: u64 = 1 << 20;
/// The message of all helpers for a registry that they do not know.
const NOT_FOUND: &str = "credentials not found in native keychain";

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct HelperReply {
    username: String,
    secret: String,
}

/// Asks a helper; `None` if it knows no credentials. The error is the end of a sentence that begins
/// with the helper.
pub(super) fn get_login(
    helper: &str,
    registry: &str,
    sources: &Sources,
) -> Result<Option<Login>, String> {
    let is_word = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
    if !helper.bytes().all(is_word) {
        return Err(
            "is no name of a program: letters, digits, `-`, `_` and `.` are allowed".to_owned()
        );
    }
    let program = env_vars::files_of(helper.as_ref(), &sources.search_path)
        .find(|path| path.is_file())
        .ok_or("is not on PATH: install it, or take its name out of the file")?;
    let (status, output) = run(program, registry, sources.helper_time)?;
    if !status.success() {
        return if output.contains(NOT_FOUND) {
            Ok(None)
        } else {
            // Its output is not shown, because it may hold the secret.
            Err(format!("failed ({status}); see why: `echo {registry} | {helper} get`"))
        };
    }
    let answer: HelperReply = serde_json::from_str(&output).map_err(|error| {
        let problem = ParseError::from(&error);
        format!("did not answer with `Username` and `Secret` as JSON: {problem}")
    })?;
    Ok(login(answer.username, answer.secret, None))
}

/// Runs a helper. A thread reads its output, because a grandchild that outlives a killed helper
/// would keep the pipe open, and block the reader.
fn run(program: PathBuf, registry: &str, limit: Duration) -> Result<(ExitStatus, String), String> {
    let began = Instant::now();
    let mut command = env_vars::command(program);
    command.arg("get").stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut child = Child::start(&mut command, Group::Shared)
        .map_err(|error| format!("cannot be started: {error}"))?;
    if let Some(mut stdin) = child.take_stdin() {
        // A helper that does not read its input reports its own error.
        let _ = writeln!(stdin, "{registry}");
    }
    let output = listen(&mut child);
    let result = output.recv_timeout(limit).ok().and_then(|output| {
        let time_left = limit.saturating_sub(began.elapsed());
        Some((children::wait(child, time_left, &mut || {}).ok()?, output))
    });
    result.ok_or_else(|| format!("did not answer within {} s, and was ended", limit.as_secs_f32()))
}

fn listen(child: &mut Child) -> Receiver<String> {
    let (sender, receiver) = channel();
    let stdout = child.take_stdout();
    std::thread::spawn(move || {
        let mut output = Vec::new();
        // Output that cannot be read is left out, because the exit status is checked, too.
        let _ = stdout.map(|stdout| stdout.take(LARGEST_OUTPUT).read_to_end(&mut output));
        // the receiver may have given up
        let _ = sender.send(String::from_utf8_lossy(&output).into_owned());
    });
    receiver
}
