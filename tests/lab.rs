//! The environment of a case: an Envoy of one version, and the module. Also the macros that list
//! the cases of a file.

use std::collections::HashMap;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::{Arc, LazyLock, Mutex, PoisonError};

use laststream_base::progress::Texts;
use laststream_filter::identity::CONFIGURATION;
use laststream_local::envoy::{self, SUPPORTED, Version, Wanted};
use libtest_mimic::Trial;
use regex::bytes::Regex;
use tempfile::TempDir;

use kit::bootstrap::filters::Wasm;
use kit::completion;
use kit::prelude::*;
use kit::trial::block_on;

/// Chooses the Envoys to test on: `all`, `oldest`, or versions with commas between them. Without
/// it the newest supported one.
const VERSIONS: &str = "LASTSTREAM_TEST_ENVOYS";

/// The versions of Envoy that this run tests.
pub(crate) fn versions() -> Outcome<Vec<Version>> {
    match std::env::var(VERSIONS).ok().as_deref().map(str::trim) {
        None | Some("") => Ok(vec![envoy::NEWEST]),
        Some("oldest") => Ok(vec![envoy::OLDEST]),
        Some("all") => Ok(SUPPORTED.to_vec()),
        Some(list) => list
            .split(',')
            .map(|version| version.trim().parse().with_context(|| format!("{VERSIONS}={list}")))
            .collect(),
    }
}

/// The number in an environment variable, or the default. Any other text is an error, because a
/// misspelt seed would replay another round.
pub(crate) fn number<T: FromStr>(variable: &str, default: T) -> Outcome<T> {
    match std::env::var(variable).as_deref().map(str::trim) {
        Err(_) | Ok("") => Ok(default),
        Ok(text) => text.parse().ok().with_context(|| format!("{variable}={text} is no number")),
    }
}

/// The Envoy and the module that a case runs with.
pub(crate) struct Lab {
    pub(crate) version: Version,
    pub(crate) envoy: PathBuf,
    pub(crate) module: PathBuf,
}

/// A case: its name, and the case itself.
#[derive(Clone)]
pub(crate) struct Case {
    pub(crate) name: &'static str,
    pub(crate) run: fn(&Lab) -> Outcome,
}

/// The time limit of a case. Only a hang exceeds it, not a case on a slow or busy machine.
pub(crate) const LIMIT: Duration = Duration::from_secs(1_200);

/// Makes a [`Case`] of an async function. `case!(name, limit)` gives it another time limit.
macro_rules! case {
    ($case:path) => {
        $crate::lab::case!($case => |lab| $case(lab))
    };
    ($case:path, $limit:expr) => {
        $crate::lab::case!($case, $limit => |lab| $case(lab))
    };
    ($case:path => |$lab:ident| $run:expr) => {
        $crate::lab::case!($case, $crate::lab::LIMIT => |$lab| $run)
    };
    ($case:path, $limit:expr => |$lab:ident| $run:expr) => {
        $crate::lab::Case {
            name: concat!(module_path!(), "::", stringify!($case)),
            run: |$lab| kit::trial::block_on($limit, $run),
        }
    };
}
pub(crate) use case;

/// Makes the function `cases` of a file. `name => |lab| function(lab, 50)` gives a call a name.
macro_rules! cases {
    ($($case:path $(=> |$lab:ident| $run:expr)?),* $(,)?) => {
        pub(crate) fn cases() -> Vec<$crate::lab::Case> {
            vec![$($crate::lab::case!($case $(=> |$lab| $run)?)),*]
        }
    };
}
pub(crate) use cases;

/// A case that needs no Envoy. It may block.
#[derive(Clone)]
pub(crate) struct EnvoylessCase {
    pub(crate) name: &'static str,
    pub(crate) run: fn() -> Outcome,
}

/// Makes an [`EnvoylessCase`] of a function.
macro_rules! envoyless {
    ($case:path) => {
        $crate::lab::EnvoylessCase {
            name: concat!(module_path!(), "::", stringify!($case)),
            run: $case,
        }
    };
}
pub(crate) use envoyless;

/// [`cases`] for cases without Envoy.
macro_rules! envoyless_cases {
    ($($case:path),* $(,)?) => {
        pub(crate) fn cases() -> Vec<$crate::lab::EnvoylessCase> {
            vec![$($crate::lab::envoyless!($case)),*]
        }
    };
}
pub(crate) use envoyless_cases;

pub(crate) fn trials_without_envoy(cases: Vec<EnvoylessCase>) -> impl Iterator<Item = Trial> {
    cases.into_iter().map(|case| {
        let name = case.name.rsplit("cases::").next().unwrap_or(case.name);
        let run = async move {
            tokio::task::spawn_blocking(case.run).await.context("a thread for the case")?
        };
        Trial::ignorable_test(name, move || completion(block_on(LIMIT, run)))
    })
}

/// The binaries of Envoy, each found or downloaded once for all trials.
#[derive(Clone, Default)]
pub(crate) struct Envoys(Arc<Mutex<HashMap<Version, PathBuf>>>);

impl Envoys {
    pub(crate) fn get(&self, version: Version) -> Outcome<PathBuf> {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(binary) = known.get(&version) {
            return Ok(binary.clone());
        }
        let wanted = Wanted { path: None, ..Wanted::version(version) };
        let found = envoy::find_or_get(&wanted, &Texts(say)).map_err(Error::msg)?;
        known.insert(version, found.binary.clone());
        Ok(found.binary)
    }

    /// One trial for each case on an Envoy of this version.
    pub(crate) fn trials(&self, version: Version, cases: Vec<Case>) -> Vec<Trial> {
        let trial = |case: Case| {
            let envoys = self.clone();
            let name = case.name.rsplit("cases::").next().unwrap_or(case.name);
            Trial::ignorable_test(format!("{name}::{version}"), move || {
                let lab = || Ok(Lab { version, envoy: envoys.get(version)?, module: module()? });
                completion(lab().and_then(|lab| (case.run)(&lab)))
            })
        };
        cases.into_iter().map(trial).collect()
    }
}

impl Lab {
    /// The module as a filter, with a configuration as JSON.
    pub(crate) fn stream<'a>(&'a self, configuration: &'a str) -> Wasm<'a> {
        Wasm {
            name: "laststream",
            module: &self.module,
            vm_id: "laststream",
            vm_configuration: "",
            configuration,
            failure_policy: "FAIL_RELOAD",
        }
    }
}

/// The module that the command line carries, as a file.
pub(crate) fn module() -> Outcome<PathBuf> {
    static FILE: LazyLock<Result<PathBuf, String>> =
        LazyLock::new(|| written(laststream_module::builtin(), MODULE));
    FILE.clone().map_err(Error::msg)
}

/// The module of the frame filter, which the command line carries, too.
pub(crate) fn frames_module() -> Outcome<PathBuf> {
    static FILE: LazyLock<Result<PathBuf, String>> =
        LazyLock::new(|| written(laststream_module::builtin_frames(), "laststream_frames.wasm"));
    FILE.clone().map_err(Error::msg)
}

fn written(module: Result<&[u8], &str>, name: &str) -> Result<PathBuf, String> {
    let bytes = module.map_err(|reason| format!("there is no module to test: {reason}"))?;
    // Renamed into place, because another run may be reading the file of this name.
    let write = || {
        let mut file = tempfile::NamedTempFile::new_in(env!("CARGO_TARGET_TMPDIR"))?;
        file.write_all(bytes)?;
        let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
        file.persist(&path)?;
        Ok(path)
    };
    write().map_err(|error: std::io::Error| format!("the module as a file: {error}"))
}

/// The same Envoy with a build of another version. Only the texts of its versions differ from this
/// module's: Envoy gives it VMs of its own, and its gate shows its version.
pub(crate) fn of_another_version(lab: &Lab) -> Outcome<(Lab, TempDir)> {
    let mut bytes = std::fs::read(&lab.module).context("the module")?;
    let configuration = |version: u32| format!("configuration={version}");
    for (from, to) in [
        (env!("CARGO_PKG_VERSION").to_owned(), another_version()),
        (configuration(CONFIGURATION), configuration(CONFIGURATION + 1)),
    ] {
        let pattern = Regex::new(&regex::escape(&from)).context("the text of a version")?;
        ensure!(pattern.is_match(&bytes), "the module has no text `{from}`");
        bytes = pattern.replace_all(&bytes, to.as_bytes()).into_owned();
    }
    let folder = TempDir::new().context("a folder for the other module")?;
    let module = folder.path().join(MODULE);
    std::fs::write(&module, bytes).context("the other module")?;
    Ok((Lab { version: lab.version, envoy: lab.envoy.clone(), module }, folder))
}

/// A version as long as the present one.
pub(crate) fn another_version() -> String {
    env!("CARGO_PKG_VERSION").replace(char::is_numeric, "9")
}

/// The name of a module's file.
pub(crate) const MODULE: &str = "laststream.wasm";

/// The module with the feature `test-deaths`: a request with `x-laststream-die` makes its VM die,
/// one with `x-laststream-stall` or `x-laststream-stall-begin` makes its worker stand still.
pub(crate) fn test_deaths_module() -> Outcome<PathBuf> {
    match env!("LASTSTREAM_TEST_DEATHS_MODULE") {
        "" => bail!("there is no module to test: {}", env!("LASTSTREAM_TEST_DEATHS_MODULE_ERROR")),
        path => Ok(Path::new(path).to_owned()),
    }
}
