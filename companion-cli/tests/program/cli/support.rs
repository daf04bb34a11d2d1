//! Running the program.

use std::ffi::OsStr;
use std::path::Path;
use std::process::Command;

use kit::Outcome;
use kit::command::{CommandOutput, run};

pub(crate) const PROGRAM: &str = env!("CARGO_BIN_EXE_laststream");

/// Runs the program in this folder.
pub(crate) fn laststream<A: AsRef<OsStr>>(
    folder: &Path,
    arguments: impl IntoIterator<Item = A>,
) -> Outcome<CommandOutput> {
    run(Command::new(PROGRAM).current_dir(folder).args(arguments))
}

/// The smallest module that Envoy loads, with more put into it.
pub(crate) fn loadable(more: &str) -> Vec<u8> {
    wasm(&format!(
        r#"(module {more}
            (memory (export "memory") 1)
            (func (export "proxy_abi_version_0_2_1"))
            (func (export "malloc") (param i32) (result i32) i32.const 0))"#
    ))
}

pub(crate) fn wasm(text: &str) -> Vec<u8> {
    wat::parse_str(text).unwrap()
}
