//! Programs that tests need besides Envoy, such as a registry. `tests/tools/program` finds them, or
//! unpacks them into the user's cache.

use std::collections::HashMap;
use std::io::{BufRead as _, BufReader};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::{Arc, LazyLock, Mutex, OnceLock};

use crate::outcome::MachineLacks;
use crate::{Context as _, Outcome, locked, workspace};

/// A program's path, or the reason why there is none. While one trial fetches it, others wait for
/// it.
type Found = Arc<OnceLock<Result<PathBuf, String>>>;

static FOUND: LazyLock<Mutex<HashMap<String, Found>>> = LazyLock::new(Mutex::default);
/// The first file of this name on the search path.
pub fn which(program: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).map(|folder| folder.join(program)).find(|file| file.is_file())
}

/// The path of a program. If it is missing and cannot be fetched, the trial is reported as ignored,
/// with the reason.
pub fn program(name: &str) -> Outcome<PathBuf> {
    let found = Arc::clone(locked(&FOUND).entry(name.to_owned()).or_default());
    let find = || find(name).unwrap_or_else(|error| Err(format!("`{name}`: {error:#}")));
    let path = found.get_or_init(find);
    path.clone().map_err(|reason| MachineLacks(reason).into())
}

/// Runs the script, whose progress and errors go on to standard error. If there is no program, the
/// reason is its last line that begins with `missing: `, or else its last line.
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
