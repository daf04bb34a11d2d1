//! The formula with which Homebrew installs the program. It names the archives for Linux, because a
//! release has no program for macOS.

use crate::files::{Files, download};
use crate::{Platform, VERSION, program_archive};

const TEMPLATE: &str = include_str!("formula.rb");

pub(crate) fn formula(files: &Files) -> Result<String, String> {
    let common = TEMPLATE
        .replace("HOMEPAGE", env!("CARGO_PKG_REPOSITORY"))
        .replace("\"VERSION\"", &format!("\"{VERSION}\""));
    Platform::ALL.into_iter().try_fold(common, |formula, platform| {
        let archive = program_archive(platform);
        let digest = files.digest(&archive).ok_or("the formula comes after the archives")?;
        let name = platform.architecture().to_uppercase();
        Ok(formula
            .replace(&format!("{name}_URL"), &download(&archive))
            .replace(&format!("{name}_DIGEST"), digest.hex()))
    })
}
