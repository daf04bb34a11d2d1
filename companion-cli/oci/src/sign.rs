//! Signs images with cosign, which finds credentials itself; none are passed to it.

use std::io;
use std::process::Stdio;

use laststream_base::children;
use laststream_base::env_vars::{self, Lookup};

const PROGRAM: &str = "cosign";

/// Signs an image, named by its digest, because a tag could point to another image by now.
pub fn sign(
    pinned: &str,
    plain_http: bool,
    insecure: bool,
    lookup: Lookup<'_>,
) -> Result<(), String> {
    let mut arguments = vec!["sign", "--yes"];
    arguments.extend(plain_http.then_some("--allow-http-registry"));
    arguments.extend(insecure.then_some("--allow-insecure-registry"));
    arguments.push(pinned);
    let command = format!("{PROGRAM} {}", arguments.join(" "));
    let folders = env_vars::search_path(lookup);
    let program = env_vars::files_of(PROGRAM.as_ref(), &folders).find(|path| path.is_file());
    let failed = |why: String| {
        Err(format!("it is published, but not signed: `{PROGRAM}` {why}\n  {command}"))
    };
    let Some(program) = program else { return failed("is not on PATH; sign it with".to_owned()) };
    // cosign's standard output is text for humans, so it goes to standard error.
    let mut cosign = env_vars::command(program);
    match children::status(cosign.args(&arguments).stdout(Stdio::from(io::stderr()))) {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => failed(format!("failed ({status}), see above; the command was")),
        Err(error) => failed(format!("cannot be started: {error}; the command was")),
    }
}

#[cfg(test)]
mod tests {
    use std::fs::{self, Permissions};
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn a_cosign_that_fails_is_an_error() {
        let folder = tempfile::tempdir().unwrap();
        let lookup = |name: &str| (name == env_vars::PATH).then(|| folder.path().into());
        let program = folder.path().join(PROGRAM);
        fs::write(&program, "#!/bin/sh\nexit 7\n").unwrap();
        fs::set_permissions(&program, Permissions::from_mode(0o755)).unwrap();
        let error = sign("h/r@sha256:0", true, false, &lookup).unwrap_err();
        assert!(error.contains("`cosign` failed (exit status: 7)"), "{error}");
    }
}
