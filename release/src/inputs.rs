//! The inputs of a release.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::Platform;
use laststream_base::causes::Context as _;

/// The inputs of a release: the programs for all platforms and a bill of materials.
#[derive(Debug)]
pub struct Inputs {
    /// Cargo's target folder.
    programs: PathBuf,
    /// The output of cargo-cyclonedx.
    pub(crate) sbom: Vec<u8>,
}

/// A released program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Program {
    /// The command line.
    Whole,
    /// The small one for stop hooks and Jobs.
    Hook,
}

impl Program {
    /// All of them.
    pub const ALL: [Self; 2] = [Self::Whole, Self::Hook];

    /// Its file in cargo's target folder.
    #[must_use]
    pub fn file(self, platform: Platform) -> String {
        let target = platform.target();
        match self {
            Self::Whole => format!("{target}/release/laststream"),
            Self::Hook => format!("{target}/hook/laststream-hook"),
        }
    }
}

impl Inputs {
    /// Reads the bill of materials. The programs are read as they are needed, from cargo's target
    /// folder.
    ///
    /// # Errors
    /// Names the file that cannot be read.
    pub fn read(programs: &Path, sbom: &Path) -> Result<Self, String> {
        Ok(Self { programs: programs.to_owned(), sbom: read(sbom)? })
    }

    pub(crate) fn program(&self, program: Program, platform: Platform) -> Result<Vec<u8>, String> {
        read(&self.programs.join(program.file(platform)))
    }

    /// Runs the whole program of this machine's platform and returns what it prints.
    pub(crate) fn run(&self, arguments: &[&str]) -> Result<Vec<u8>, String> {
        let platform = Platform::of_this_machine().ok_or_else(|| {
            let machine = std::env::consts::ARCH;
            format!("none of the released programs runs on this machine ({machine})")
        })?;
        let command = format!("laststream {}", arguments.join(" "));
        let program = self.programs.join(Program::Whole.file(platform));
        let output = Command::new(program).args(arguments).output().context(&command)?;
        if output.status.success() {
            return Ok(output.stdout);
        }
        let problem = String::from_utf8_lossy(&output.stderr);
        Err(format!("`{command}` failed: {}: {}", output.status, problem.trim()))
    }
}

fn read(path: &Path) -> Result<Vec<u8>, String> {
    fs::read(path).context(format!("cannot read `{}`", path.display()))
}
