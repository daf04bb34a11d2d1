//! Compiles a module for the tests that the command line does not carry: with the feature
//! `test-deaths`. They read its path from `LASTSTREAM_MORTAL`, or the reason why there is none from
//! `LASTSTREAM_MORTAL_ERROR`, so that a missing toolchain is a clear test failure and not a broken
//! build. The module that is shipped comes with the library `laststream`.

use std::path::Path;

#[path = "companion-cli/build/nested.rs"]
mod nested;

fn main() {
    let mortal = nested::variable("CARGO_MANIFEST_DIR")
        .and_then(|root| nested::module(Path::new(&root), "mortal", &["test-deaths"]));
    let (path, error) = match mortal {
        Ok(wasm) => (wasm.display().to_string(), String::new()),
        Err(error) => (String::new(), error),
    };
    println!("cargo::rustc-env=LASTSTREAM_MORTAL={path}");
    println!("cargo::rustc-env=LASTSTREAM_MORTAL_ERROR={}", error.replace('\n', " | "));
}
