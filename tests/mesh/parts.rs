//! The parts of a mesh: programs that are found, unpacked or compiled outside, where there is a
//! network. The levels inside get their paths.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::LazyLock;

use laststream_base::progress::Texts;
use laststream_local::envoy::{self, Wanted};

use crate::release::Release;
use kit::prelude::*;
use kit::user;

/// The variable in which the level inside gets its [`Parts`], as JSON.
pub(crate) const PARTS: &str = "LASTSTREAM_MESH_PARTS";

/// Paths of the parts, by their names.
pub(crate) struct Parts(BTreeMap<String, PathBuf>);

impl Parts {
    pub(crate) fn json(&self) -> String {
        serde_json::json!(self.0).to_string()
    }

    pub(crate) fn paths(&self) -> impl Iterator<Item = &Path> {
        self.0.values().map(PathBuf::as_path)
    }
}

/// Gets the parts, and everything else that takes a while or needs a network: Envoy, the registry,
/// the command line. Prints slow steps on standard error.
pub(crate) fn find_or_make(names: &[&str]) -> Outcome<Parts> {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/tools/program");
    let common = ["skopeo", "docker-registry"];
    say(&format!("looking for {}", [&common, names].concat().join(", ")));
    let mut command = Command::new(&script);
    command.args(common).args(names).stdin(Stdio::null()).stderr(Stdio::inherit());
    let output = command.output().with_context(|| script.display().to_string())?;
    ensure!(output.status.success(), "not all parts can be had");
    let paths = String::from_utf8(output.stdout)?;
    let mut parts: BTreeMap<String, PathBuf> = common
        .iter()
        .chain(names)
        .map(|name| (*name).to_owned())
        .zip(paths.lines().map(PathBuf::from))
        .collect();
    let release = Release::chosen()?;
    say(&format!("Istio {}, Envoy {}", release.name(), release.envoy()));
    let wanted = Wanted { path: None, ..Wanted::version(release.envoy()) };
    let found = envoy::find_or_get(&wanted, &Texts(say)).map_err(Error::msg)?;
    parts.insert("envoy".into(), found.binary);
    say("building the command line, if it has changed");
    user::laststream()?;
    Ok(Parts(parts))
}

/// The path of a part, for the level inside.
pub(crate) fn part(name: &str) -> Outcome<&'static Path> {
    static INSIDE: LazyLock<Result<Parts, String>> = LazyLock::new(|| {
        let json = std::env::var(PARTS).map_err(|error| format!("{PARTS}: {error}"))?;
        serde_json::from_str(&json).map(Parts).map_err(|error| format!("{PARTS}: {error}"))
    });
    let parts = INSIDE.as_ref().map_err(Error::msg)?;
    parts
        .0
        .get(name)
        .map(PathBuf::as_path)
        .with_context(|| format!("`{name}` is not among the parts of this level"))
}
