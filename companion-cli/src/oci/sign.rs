//! Signs images with cosign, which finds credentials itself; none are passed to it.

use std::io;
use std::process::Stdio;

use crate::children;
use crate::env_vars::{self, Lookup};

const PROGRAM: &str = "cosign";

/// Why something is not signed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SignError {
    /// There is no cosign.
    #[error("it is published, but not signed: `{PROGRAM}` is not on PATH; sign it with\n  {0}")]
    Missing(String),
    /// It does not start.
    #[error(
        "it is published, but not signed: `{PROGRAM}` cannot be started: {error}; the command \
            was\n  {command}"
    )]
    Start {
        /// The command as the user can type it.
        command: String,
        /// Why not.
        error: io::Error,
    },
    /// It said no.
    #[error(
        "it is published, but not signed: `{PROGRAM}` failed ({status}), see above; the command \
            was\n  {command}"
    )]
    Failed {
        /// The command as the user can type it.
        command: String,
        /// How it ended.
        status: std::process::ExitStatus,
    },
}

/// Signs an image, named by its digest: a tag could stand for another one by now.
///
/// # Errors
/// Each names the command to do it by hand.
pub fn sign(
    pinned: &str,
    plain_http: bool,
    insecure: bool,
    lookup: Lookup<'_>,
) -> Result<(), SignError> {
    let mut arguments = vec!["sign", "--yes"];
    arguments.extend(plain_http.then_some("--allow-http-registry"));
    arguments.extend(insecure.then_some("--allow-insecure-registry"));
    arguments.push(pinned);
    let command = format!("{PROGRAM} {}", arguments.join(" "));
    let folders = env_vars::search_path(lookup);
    let program = env_vars::files_of(PROGRAM.as_ref(), &folders).find(|path| path.is_file());
    let Some(program) = program else { return Err(SignError::Missing(command)) };
    // cosign's standard output is text for humans, so it goes to standard error.
    let mut cosign = env_vars::command(program);
    match children::status(cosign.args(&arguments).stdout(Stdio::from(io::stderr()))) {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(SignError::Failed { command, status }),
        Err(error) => Err(SignError::Start { command, error }),
    }
}
