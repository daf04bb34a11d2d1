//! Compiles the module and the frame filter's module, and embeds both in the library, with which
//! they are tested and shipped.
//!
//! If a module cannot be compiled, a debug build goes on, and commands that need the module
//! report the reason. A release build fails, because operators need the module inside.
//! `SKIP_WASM_BUILD=1` compiles nothing; with `CARGO_NET_OFFLINE=true` the network is not used.
#![allow(clippy::print_stdout, reason = "this is how a build script talks to cargo")]

use std::fs;
use std::path::Path;
use std::process::ExitCode;

#[path = "build/nested.rs"]
mod nested;

fn main() -> ExitCode {
    match embed() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            println!("cargo::error={}", error.replace('\n', " | "));
            ExitCode::FAILURE
        }
    }
}

fn embed() -> Result<(), String> {
    embed_module("builtin.rs", &[])?;
    embed_module("builtin_frames.rs", &[nested::FRAMES])
}

/// Both modules share the folder of the compiler's output, and with it their compiled dependencies.
fn embed_module(file: &str, features: &[&str]) -> Result<(), String> {
    let package = nested::variable("CARGO_MANIFEST_DIR")?;
    let workspace = Path::new(&package).ancestors().nth(2);
    let workspace = workspace.ok_or("the package is at the root of the file system")?;
    let module = nested::module(workspace, "module", features);
    let value = match &module {
        Ok(wasm) => format!("Ok(include_bytes!({:?}))", wasm.display().to_string()),
        Err(reason) if nested::variable("PROFILE")? == "release" && !nested::is_skipped() => {
            return Err(reason.clone());
        }
        Err(reason) => format!("Err({reason:?})"),
    };
    let file = Path::new(&nested::variable("OUT_DIR")?).join(file);
    fs::write(&file, value).map_err(|error| format!("cannot write `{}`: {error}", file.display()))
}
