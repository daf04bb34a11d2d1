//! Makes a module smaller with `wasm-opt` of Binaryen, which must be installed.

use std::path::Path;
use std::process::Command;

use laststream_base::children;

const PROGRAM: &str = "wasm-opt";

/// The WebAssembly features that rustc uses for wasm32. The program treats all others as errors.
const FEATURES: [&str; 6] = [
    "--enable-bulk-memory",
    "--enable-multivalue",
    "--enable-mutable-globals",
    "--enable-nontrapping-float-to-int",
    "--enable-reference-types",
    "--enable-sign-ext",
];

/// The version that the program prints: another version gives other bytes.
pub fn version() -> Result<String, String> {
    output(Command::new(PROGRAM).arg("--version"))
}

pub fn optimise(module: &Path, into: &Path) -> Result<(), String> {
    output(Command::new(PROGRAM).arg("-Oz").args(FEATURES).arg(module).arg("-o").arg(into))?;
    Ok(())
}

fn output(command: &mut Command) -> Result<String, String> {
    let output = children::output(command).map_err(|error| {
        format!(
            "cannot start `{PROGRAM}`: {error}; it comes with Binaryen (Debian: `apt install \
            binaryen`), or go without it"
        )
    })?;
    if output.status.success() {
        Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
    } else {
        let why = String::from_utf8_lossy(&output.stderr);
        Err(format!("`{PROGRAM}` failed ({}): {}", output.status, why.trim()))
    }
}
