//! The formula of Homebrew.

use laststream_release::{FORMULA, Platform, VERSION, program_archive};
use regex::Regex;

use super::{Release, run};
use crate::docs::ADDRESS;
use crate::lab::envoyless_cases;
use kit::prelude::*;
use kit::process::guarded;
use kit::programs::program;
use kit::registry::sha256;

envoyless_cases! {
    the_formula_names_the_archives,
}

/// Ruby parses it. Homebrew itself is on no machine of these tests.
fn the_formula_names_the_archives() -> Outcome {
    let release = Release::get()?;
    run(guarded(program("ruby")?).args(["--disable-gems", "-cw"]).arg(release.file(FORMULA)))?
        .stdout_contains("Syntax OK")?;
    let text = String::from_utf8(release.read(FORMULA)?)?;
    let entry = Regex::new(r#"on_(\w+) do\n +url "(.+)"\n +sha256 "([0-9a-f]{64})"\n"#)?;
    let named: Vec<[&str; 3]> = entry.captures_iter(&text).map(|entry| entry.extract().1).collect();
    ensure_eq!(named.len(), Platform::ALL.len(), "platforms");
    for ((machine, platform), entry) in ["intel", "arm"].iter().zip(Platform::ALL).zip(named) {
        let archive = program_archive(platform);
        let digest = sha256(&release.read(&archive)?);
        let url = format!("{ADDRESS}/releases/download/v{VERSION}/{archive}");
        ensure_eq!(entry, [*machine, &url, &digest["sha256:".len()..]], "the archive");
    }
    Ok(())
}
