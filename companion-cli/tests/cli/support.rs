//! Running the program.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::Command;

use serde_json::Value;

pub(crate) const PROGRAM: &str = env!("CARGO_BIN_EXE_laststream");

/// How a run ended.
#[derive(Debug)]
pub(crate) struct Ran {
    pub(crate) code: Option<i32>,
    pub(crate) out: String,
    pub(crate) people: String,
}

impl Ran {
    #[track_caller]
    pub(crate) fn expect(self, code: i32) -> Self {
        assert_eq!(self.code, Some(code), "{}{}", self.out, self.people);
        self
    }

    #[track_caller]
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.out)
            .unwrap_or_else(|error| panic!("{error}: {}{}", self.out, self.people))
    }

    #[track_caller]
    pub(crate) fn says(&self, words: &str) -> &Self {
        assert!(self.people.contains(words), "`{words}` is not in: {}", self.people);
        self
    }
}

/// Runs the program in this folder.
pub(crate) fn laststream<A: AsRef<OsStr>>(
    folder: &Path,
    arguments: impl IntoIterator<Item = A>,
) -> Ran {
    ran(Command::new(PROGRAM).current_dir(folder).args(arguments))
}

pub(crate) fn ran(command: &mut Command) -> Ran {
    let output = command.output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    Ran { code: output.status.code(), out: text(output.stdout), people: text(output.stderr) }
}

pub(crate) fn script(path: &Path, text: &str) {
    fs::write(path, format!("#!/bin/sh\n{text}\n")).unwrap();
    fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
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

/// A function's type in WebAssembly's text format, from `i32 i64 -> i32`.
pub(crate) fn text_type(signature: &str) -> String {
    let (parameters, results) = signature.split_once(" -> ").unwrap();
    let clause = |name: &str, types: &str| {
        if types == "()" { String::new() } else { format!("({name} {types})") }
    };
    format!("{} {}", clause("param", parameters), clause("result", results))
}
