//! Compiles the module once, for the tests: they read its path from `LASTSTREAM_MODULE`, or the reason why there is none from
//! `LASTSTREAM_MODULE_ERROR`, so that a missing toolchain is a clear test failure and not a broken build.
//!
//! `SKIP_WASM_BUILD=1` compiles nothing; `CARGO_NET_OFFLINE=true` never reaches for the network.

use std::path::PathBuf;

#[path = "companion-cli/src/module/compile.rs"]
mod compile;

fn main() {
    for variable in ["SKIP_WASM_BUILD", "CARGO_NET_OFFLINE"] {
        println!("cargo::rerun-if-env-changed={variable}");
    }
    let (module, error) = match build() {
        Ok(compiled) => (compiled.wasm.display().to_string(), String::new()),
        Err(error) => (String::new(), error),
    };
    println!("cargo::rustc-env=LASTSTREAM_MODULE={module}");
    println!("cargo::rustc-env=LASTSTREAM_MODULE_ERROR={}", error.replace('\n', " | "));
}

fn build() -> Result<compile::Compiled, String> {
    let root = PathBuf::from(variable("CARGO_MANIFEST_DIR")?);
    for file in ["build.rs", "companion-cli/src/module/compile.rs", "Cargo.toml", "Cargo.lock", "filter/Cargo.toml", "filter/src"] {
        println!("cargo::rerun-if-changed={}", root.join(file).display());
    }
    if std::env::var_os("SKIP_WASM_BUILD").is_some_and(|value| value != "0") {
        return Err("SKIP_WASM_BUILD was set when the tests were built".into());
    }
    let compiled = compile::Compile {
        workspace: root.clone(),
        target_dir: PathBuf::from(variable("OUT_DIR")?).join("module"),
        features: Vec::new(),
        offline: std::env::var("CARGO_NET_OFFLINE").is_ok_and(|value| value == "true" || value == "1"),
    }
    .run()?;
    let size = std::fs::metadata(&compiled.wasm).map_err(|error| error.to_string())?.len();
    println!("cargo::warning=module: {size} bytes");
    Ok(compiled)
}

fn variable(name: &str) -> Result<String, String> {
    std::env::var(name).map_err(|_| format!("cargo did not set {name}"))
}
