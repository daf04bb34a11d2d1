//! Compiles a module for the tests that the command line does not carry: with the feature
//! `test-deaths`. The tests read its path from `LASTSTREAM_TEST_DEATHS_MODULE`, or the reason why
//! there is none from `LASTSTREAM_TEST_DEATHS_MODULE_ERROR`, so that a missing toolchain is a clear
//! test failure and not a broken build. The module that is shipped comes with the library
//! `laststream`.

use std::path::Path;

#[path = "companion-cli/module/build/nested.rs"]
mod nested;

fn main() {
    let module = nested::variable("CARGO_MANIFEST_DIR")
        .and_then(|root| nested::module(Path::new(&root), "test-deaths", &["test-deaths"]));
    let (path, error) = match module {
        Ok(wasm) => (wasm.display().to_string(), String::new()),
        Err(error) => (String::new(), error),
    };
    println!("cargo::rustc-env=LASTSTREAM_TEST_DEATHS_MODULE={path}");
    let error = error.replace('\n', " | ");
    println!("cargo::rustc-env=LASTSTREAM_TEST_DEATHS_MODULE_ERROR={error}");
}
