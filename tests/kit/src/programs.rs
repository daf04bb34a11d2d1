//! Programs that tests need besides Envoy, such as a registry. `tests/tools/program` finds them, or
//! unpacks them into the user's cache.

use std::collections::HashMap;
use std::io::{BufRead as _, BufReader};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::{LazyLock, Mutex, PoisonError};

use crate::outcome::MissingProgram;
use crate::{Context as _, Outcome, workspace};

static FOUND: LazyLock<Mutex<HashMap<String, Result<PathBuf, String>>>> =
    LazyLock::new(Mutex::default);

/// The first file of this name on the search path.
pub fn which(program: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).map(|folder| folder.join(program)).find(|file| file.is_file())
}

/// The path of a program. Where it cannot be had, the trial is reported as ignored, with the
/// reason.
pub fn program(name: &str) -> Outcome<PathBuf> {
    // Held while the program is fetched: another trial waits for it instead of fetching it, too.
    let mut found = FOUND.lock().unwrap_or_else(PoisonError::into_inner);
    if !found.contains_key(name) {
        found.insert(name.to_owned(), find(name)?);
    }
    found
        .get(name)
        .context("a program that was looked for")?
        .clone()
        .map_err(|reason| MissingProgram(reason).into())
}

/// The script's progress and its errors go on to standard error; the last lines are also the reason
/// why there is no program.
fn find(name: &str) -> Outcome<Result<PathBuf, String>> {
    let script = workspace().join("tests/tools/program");
    let mut command = Command::new(&script);
    command.arg(name).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().with_context(|| script.display().to_string())?;
    let mut said = Vec::new();
    for line in BufReader::new(child.stderr.take().context("the script's standard error")?).lines()
    {
        let line = line?;
        eprintln!("{line}");
        said.push(line);
    }
    let output = child.wait_with_output()?;
    if output.status.success() {
        return Ok(Ok(String::from_utf8(output.stdout)?.trim().into()));
    }
    let reason =
        said.iter().rev().find(|line| line.starts_with("missing: ")).or_else(|| said.last());
    Ok(Err(reason.cloned().unwrap_or_else(|| format!("`{name}`: {}", output.status))))
}
