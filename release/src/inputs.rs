//! The inputs of a release.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::error::In as _;
use crate::{Platform, ReleaseError};

/// The inputs of a release: two programs and a bill of materials.
#[derive(Debug)]
pub struct Inputs {
    x86_64: (PathBuf, Vec<u8>),
    aarch64: (PathBuf, Vec<u8>),
    /// The output of cargo-cyclonedx.
    pub(crate) sbom: Vec<u8>,
}

impl Inputs {
    /// Reads the two programs and the bill of materials.
    ///
    /// # Errors
    /// Names the file that cannot be read.
    pub fn read(x86_64: &Path, aarch64: &Path, sbom: &Path) -> Result<Self, ReleaseError> {
        Ok(Self {
            x86_64: (x86_64.to_owned(), read(x86_64)?),
            aarch64: (aarch64.to_owned(), read(aarch64)?),
            sbom: read(sbom)?,
        })
    }

    pub(crate) fn program(&self, platform: Platform) -> &[u8] {
        &self.of(platform).1
    }

    /// Runs the program of this machine's platform and returns what it prints.
    pub(crate) fn run(&self, arguments: &[&str]) -> Result<Vec<u8>, ReleaseError> {
        let platform = Platform::of_this_machine()
            .ok_or(ReleaseError::NoProgramForThisMachine(std::env::consts::ARCH))?;
        let command = || format!("laststream {}", arguments.join(" "));
        let output = Command::new(&self.of(platform).0).args(arguments).output().in_(command())?;
        if output.status.success() {
            return Ok(output.stdout);
        }
        let problem =
            format!("{}: {}", output.status, String::from_utf8_lossy(&output.stderr).trim());
        Err(ReleaseError::Command { command: command(), problem })
    }

    fn of(&self, platform: Platform) -> &(PathBuf, Vec<u8>) {
        match platform {
            Platform::Amd64 => &self.x86_64,
            Platform::Arm64 => &self.aarch64,
        }
    }
}

fn read(path: &Path) -> Result<Vec<u8>, ReleaseError> {
    fs::read(path).in_(format!("cannot read `{}`", path.display()))
}
