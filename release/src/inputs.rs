//! The inputs of a release.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::Platform;
use laststream_base::causes::Context as _;

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
    pub fn read(x86_64: &Path, aarch64: &Path, sbom: &Path) -> Result<Self, String> {
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
    pub(crate) fn run(&self, arguments: &[&str]) -> Result<Vec<u8>, String> {
        let platform = Platform::of_this_machine().ok_or_else(|| {
            let machine = std::env::consts::ARCH;
            format!("none of the released programs runs on this machine ({machine})")
        })?;
        let command = format!("laststream {}", arguments.join(" "));
        let output =
            Command::new(&self.of(platform).0).args(arguments).output().context(&command)?;
        if output.status.success() {
            return Ok(output.stdout);
        }
        let problem = String::from_utf8_lossy(&output.stderr);
        Err(format!("`{command}` failed: {}: {}", output.status, problem.trim()))
    }

    fn of(&self, platform: Platform) -> &(PathBuf, Vec<u8>) {
        match platform {
            Platform::Amd64 => &self.x86_64,
            Platform::Arm64 => &self.aarch64,
        }
    }
}

fn read(path: &Path) -> Result<Vec<u8>, String> {
    fs::read(path).context(format!("cannot read `{}`", path.display()))
}
