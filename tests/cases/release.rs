//! The files of a release, as other tools read them, and the integrations that run them: kubectl,
//! GitHub, pre-commit.
//!
//! Without `LASTSTREAM_RELEASE_FILES` the cases make a separate release, in which scripts that
//! call the tested program stand for the static programs. `.ci/run release` names the real files.

mod action;
mod files;
mod first_path;
mod formula;
mod hook;
mod images;
mod plugin;

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

use laststream_release::{Inputs, Platform, Program, VERSION};
use serde_json::json;
use tempfile::TempDir;

use crate::lab::EnvoylessCase;
use kit::command::CommandOutput;
use kit::process::guarded;
use kit::user::{self, write_script};
use kit::{Context as _, Outcome, command};

pub(crate) fn cases() -> Vec<EnvoylessCase> {
    [
        action::cases(),
        files::cases(),
        first_path::cases(),
        formula::cases(),
        hook::cases(),
        images::cases(),
        plugin::cases(),
    ]
    .concat()
}

/// Names a folder with the files of a real release.
const FILES: &str = "LASTSTREAM_RELEASE_FILES";

/// The folder with the files, which lasts as long as this if it was made.
struct Release {
    folder: PathBuf,
    _made: Option<TempDir>,
}

impl Release {
    fn get() -> Outcome<Self> {
        match std::env::var_os(FILES) {
            Some(folder) => Ok(Self { folder: folder.into(), _made: None }),
            None => Self::make(),
        }
    }

    fn make() -> Outcome<Self> {
        let (inputs, folder) = (tempfile::tempdir()?, tempfile::tempdir()?);
        for platform in Platform::ALL {
            let programs = [user::laststream()?, user::hook()?];
            for (program, path) in Program::ALL.into_iter().zip(programs) {
                script(&inputs.path().join(program.file(platform)), platform, path)?;
            }
        }
        let sbom = inputs.path().join("sbom.json");
        fs::write(
            &sbom,
            json!({
                "bomFormat": "CycloneDX", "specVersion": "1.5", "version": 1, "components": [],
            })
            .to_string(),
        )?;
        let inputs = Inputs::read(inputs.path(), &sbom).map_err(kit::Error::msg)?;
        laststream_release::write(&inputs, folder.path()).map_err(kit::Error::msg)?;
        Ok(Self { folder: folder.path().to_owned(), _made: Some(folder) })
    }

    /// A folder with the release under its version, as on the web.
    fn place(&self) -> Outcome<TempDir> {
        let place = tempfile::tempdir()?;
        symlink(fs::canonicalize(self.path())?, place.path().join(format!("v{VERSION}")))?;
        Ok(place)
    }

    fn path(&self) -> &Path {
        &self.folder
    }

    fn file(&self, name: &str) -> PathBuf {
        self.path().join(name)
    }

    fn read(&self, name: &str) -> Outcome<Vec<u8>> {
        fs::read(self.file(name)).with_context(|| name.to_owned())
    }
}

/// A script that calls the tested program and stands for that of a platform.
fn script(file: &Path, platform: Platform, program: &Path) -> Outcome {
    fs::create_dir_all(file.parent().context("a folder")?)?;
    let program = program.display();
    write_script(file, &format!("# {}\nexec '{program}' \"$@\"", platform.target()))
}

/// A folder with the content of the archive.
fn unpacked(archive: &Path) -> Outcome<TempDir> {
    let folder = tempfile::tempdir()?;
    run(guarded("tar")
        .arg("--extract")
        .arg("--file")
        .arg(archive)
        .arg("--directory")
        .arg(folder.path()))?;
    Ok(folder)
}

/// The names of a folder's entries, sorted.
fn names(folder: &Path) -> Outcome<Vec<String>> {
    let entries = fs::read_dir(folder).with_context(|| folder.display().to_string())?;
    let mut names: Vec<String> = entries
        .map(|entry| Ok(entry?.file_name().to_string_lossy().into_owned()))
        .collect::<Outcome<_>>()?;
    names.sort();
    Ok(names)
}

/// Runs a command that must succeed.
fn run(command: &mut Command) -> Outcome<CommandOutput> {
    command::run(command)?.expect(0).with_context(|| format!("{command:?}"))
}

/// A policy that needs no registry, in a namespace for which lint has no finding.
const POLICY: &str = "module: oci://registry.example.com/laststream:1
digest: sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef
namespace: ingress
";

/// A manifest that lint accepts, and one in which it finds an error.
const GOOD: &str = include_str!("../../companion-cli/tests/lint/good/one-envoyfilter.yaml");
const BAD: &str =
    include_str!("../../companion-cli/lint/engine/src/rules/envoy_filter/LS102.bad.yaml");
/// The rule that [`BAD`] breaks.
const BROKEN_RULE: &str = "LS102";
