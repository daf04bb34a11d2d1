//! Shared by the build scripts of the workspace: compiles the module as a part of a cargo build,
//! and again when its sources change.

use std::path::{Path, PathBuf};

#[allow(unreachable_pub, reason = "it belongs to the library, where others reach it")]
#[path = "../src/compile.rs"]
mod compile;

#[allow(unused_imports, reason = "only one of the build scripts makes that module")]
pub(crate) use compile::FRAMES;

/// If it is set, as `1` or anything but `0`, nothing is compiled.
const SKIP: &str = "SKIP_WASM_BUILD";

/// If it is `true` or `1`, the network is not used; cargo's own variable.
const OFFLINE: &str = "CARGO_NET_OFFLINE";

/// Compiles the module with these features into a folder below `OUT_DIR`. The error says why there
/// is none.
pub(crate) fn module(workspace: &Path, folder: &str, features: &[&str]) -> Result<PathBuf, String> {
    for variable in [SKIP, OFFLINE] {
        println!("cargo::rerun-if-env-changed={variable}");
    }
    for file in [
        "Cargo.toml",
        "Cargo.lock",
        "filter/Cargo.toml",
        "filter/drain/Cargo.toml",
        "companion-cli/module/src/compile.rs",
        "companion-cli/module/build",
    ] {
        rerun_if_changed(&workspace.join(file));
    }
    rerun_if_changed(Path::new("build.rs"));
    if is_skipped() {
        return Err(format!("{SKIP} was set when this was built"));
    }
    let compiled = compile(workspace, folder, features);
    match &compiled {
        Ok(module) => module.sources.iter().for_each(|source| rerun_if_changed(source)),
        // The failing file is not known.
        Err(_) => ["filter/src", "filter/drain/src"]
            .iter()
            .for_each(|folder| rerun_if_changed(&workspace.join(folder))),
    }
    compiled.map(|module| module.wasm)
}

/// Whether `SKIP_WASM_BUILD` is set.
pub(crate) fn is_skipped() -> bool {
    std::env::var_os(SKIP).is_some_and(|value| value != "0")
}

fn compile(workspace: &Path, folder: &str, features: &[&str]) -> Result<compile::Compiled, String> {
    let offline = std::env::var(OFFLINE).is_ok_and(|value| value == "true" || value == "1");
    compile::Compile {
        workspace: workspace.to_owned(),
        target_dir: PathBuf::from(variable("OUT_DIR")?).join(folder),
        features: features.iter().map(ToString::to_string).collect(),
        offline,
        may_install: !offline,
        run_program: std::process::Command::output,
    }
    .run()
}

fn rerun_if_changed(file: &Path) {
    println!("cargo::rerun-if-changed={}", file.display());
}

/// A variable that cargo sets for build scripts.
pub(crate) fn variable(name: &str) -> Result<String, String> {
    std::env::var(name).map_err(|_| format!("cargo did not set {name}"))
}
