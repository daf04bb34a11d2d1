//! Making a module smaller with `wasm-opt` of Binaryen, which has to be on the machine.

use std::ffi::OsStr;
use std::path::Path;
use std::process::Command;

/// The program.
pub const PROGRAM: &str = "wasm-opt";

/// What a module may use that rustc compiles for wasm32; the program takes the others for errors.
const FEATURES: [&str; 6] = [
    "--enable-bulk-memory",
    "--enable-multivalue",
    "--enable-mutable-globals",
    "--enable-nontrapping-float-to-int",
    "--enable-reference-types",
    "--enable-sign-ext",
];

/// Optimises for size. Returns what the program says of its own version, because other versions make other bytes.
///
/// # Errors
/// Says what failed, and the way out.
pub fn optimise(program: &OsStr, module: &Path, into: &Path) -> Result<String, String> {
    let version = output(program, Command::new(program).arg("--version"))?;
    output(program, Command::new(program).arg("-Oz").args(FEATURES).arg(module).arg("-o").arg(into))?;
    Ok(version)
}

fn output(program: &OsStr, command: &mut Command) -> Result<String, String> {
    let output = command.output().map_err(|error| {
        format!("cannot start `{}`: {error}; it comes with Binaryen (Debian: `apt install binaryen`), or go without it", program.display())
    })?;
    if output.status.success() {
        Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
    } else {
        Err(format!("`{}` failed ({}): {}", program.display(), output.status, String::from_utf8_lossy(&output.stderr).trim()))
    }
}
