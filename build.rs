//! Compiles the module once, for the tests: they read its path from `LASTSTREAM_MODULE`, or the reason why there is none from
//! `LASTSTREAM_MODULE_ERROR`, so that a missing toolchain is a clear test failure and not a broken build. `LASTSTREAM_MORTAL` is the same
//! module with the feature `test-deaths`.
//!
//! `SKIP_WASM_BUILD=1` compiles nothing; `CARGO_NET_OFFLINE=true` never reaches for the network.

use std::path::{Path, PathBuf};

#[path = "companion-cli/src/module/compile.rs"]
mod compile;

fn main() {
    for variable in ["SKIP_WASM_BUILD", "CARGO_NET_OFFLINE"] {
        println!("cargo::rerun-if-env-changed={variable}");
    }
    let (module, mortal, error) = match build() {
        Ok([module, mortal]) => (module.wasm.display().to_string(), mortal.wasm.display().to_string(), String::new()),
        Err(error) => (String::new(), String::new(), error),
    };
    println!("cargo::rustc-env=LASTSTREAM_MODULE={module}");
    println!("cargo::rustc-env=LASTSTREAM_MORTAL={mortal}");
    println!("cargo::rustc-env=LASTSTREAM_MODULE_ERROR={}", error.replace('\n', " | "));
}

fn build() -> Result<[compile::Compiled; 2], String> {
    let root = PathBuf::from(variable("CARGO_MANIFEST_DIR")?);
    for file in ["build.rs", "companion-cli/src/module/compile.rs", "Cargo.toml", "Cargo.lock", "filter/Cargo.toml"] {
        rerun_if_changed(&root.join(file));
    }
    if std::env::var_os("SKIP_WASM_BUILD").is_some_and(|value| value != "0") {
        return Err("SKIP_WASM_BUILD was set when the tests were built".into());
    }
    let compiled = compile(&root, "module", &[]).and_then(|module| Ok([module, compile(&root, "mortal", &["test-deaths"])?]));
    match &compiled {
        Ok(modules) => modules.iter().flat_map(|module| &module.sources).for_each(|source| rerun_if_changed(source)),
        Err(_) => rerun_if_changed(&root.join("filter/src")), // which file it was is not known
    }
    if let Ok([module, _]) = &compiled {
        let size = std::fs::metadata(&module.wasm).map_err(|error| error.to_string())?.len();
        println!("cargo::warning=module: {size} bytes");
    }
    compiled
}

fn compile(root: &Path, folder: &str, features: &[&str]) -> Result<compile::Compiled, String> {
    compile::Compile {
        workspace: root.to_owned(),
        target_dir: PathBuf::from(variable("OUT_DIR")?).join(folder),
        features: features.iter().map(ToString::to_string).collect(),
        offline: std::env::var("CARGO_NET_OFFLINE").is_ok_and(|value| value == "true" || value == "1"),
    }
    .run()
}

fn rerun_if_changed(file: &Path) {
    println!("cargo::rerun-if-changed={}", file.display());
}

fn variable(name: &str) -> Result<String, String> {
    std::env::var(name).map_err(|_| format!("cargo did not set {name}"))
}
