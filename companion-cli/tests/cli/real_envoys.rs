//! Real Envoys agree with `inspect`: they load the modules that it calls loadable, and refuse the
//! others.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use kit::bootstrap::filters::Wasm;
use kit::prelude::*;
use kit::wait::blocking;
use laststream::base::progress::Silent;
use laststream::local::envoy::{self, NEWEST, OLDEST, Version, Wanted};
use laststream::module::analysis::{Abi, analyse};
use laststream::module::host_calls::{Function, looked_for, offered};
use laststream::module::verdict::obstacles;

use crate::support::{loadable, text_type, wasm};

const ABIS: [(Abi, &str); 3] =
    [(Abi::V0_1_0, "0_1_0"), (Abi::V0_2_0, "0_2_0"), (Abi::V0_2_1, "0_2_1")];

fn get(version: Version) -> PathBuf {
    envoy::find_or_get(&Wanted { path: None, ..Wanted::version(version) }, &Silent).unwrap().binary
}

/// Whether an Envoy loads the module, and its output if not.
fn load(envoy: &Path, module: &[u8]) -> Result<(), String> {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("module.wasm");
    fs::write(&file, module).unwrap();
    let filter = Wasm {
        name: "module",
        module: &file,
        vm_id: "",
        vm_configuration: "",
        configuration: "",
        failure_policy: "FAIL_CLOSED",
    };
    let listener = Listener::new("listener", Hcm::new("http").filter(filter.filter()));
    let bootstrap = Bootstrap::new().listener(listener).build();
    let said = blocking(Envoy::validate(envoy, bootstrap)).unwrap();
    if said.status.success() { Ok(()) } else { Err(said.output) }
}

fn imports(module: &str, functions: &[Function]) -> String {
    functions.iter().fold(String::new(), |mut text, function| {
        writeln!(
            text,
            r#"(import "{module}" "{}" (func {}))"#,
            function.name,
            text_type(&function.signature)
        )
        .unwrap();
        text
    })
}

fn with_abi(abi: &str, more: &str, exports: &str) -> Vec<u8> {
    wasm(&format!(
        r#"(module {more} (memory (export "memory") 1)
            (func (export "proxy_abi_version_{abi}")) {exports})"#
    ))
}

const MALLOC: &str = r#"(func (export "malloc") (param i32) (result i32) unreachable)"#;

/// An Envoy refuses an import of another type, so the types are right, too.
#[test]
fn envoys_offer_every_host_call_of_the_table() {
    let [oldest, newest] = [OLDEST, NEWEST].map(get);
    for (abi, name) in ABIS {
        let [env, wasi] = ["env", "wasi_snapshot_preview1"].map(|module| offered(abi, module));
        assert!(env.len() > 30 && wasi.len() > 30);
        let all = with_abi(
            name,
            &(imports("env", &env)
                + &imports("wasi_snapshot_preview1", &wasi)
                + &imports("wasi_unstable", &wasi)),
            MALLOC,
        );
        load(&newest, &all).unwrap_or_else(|error| panic!("ABI {abi}, {NEWEST}: {error}"));
        let old: Vec<_> = wasi.into_iter().filter(|function| function.since.is_none()).collect();
        let old = with_abi(
            name,
            &(imports("env", &env) + &imports("wasi_snapshot_preview1", &old)),
            MALLOC,
        );
        load(&oldest, &old).unwrap_or_else(|error| panic!("ABI {abi}, {OLDEST}: {error}"));
    }
}

#[test]
fn envoy_1_38_lacks_the_functions_that_came_with_1_39() {
    let before = get("1.38.2".parse().unwrap());
    let later = offered(Abi::V0_2_1, "wasi_unstable")
        .into_iter()
        .filter(|function| function.since == Some("1.39"));
    for function in later {
        let error =
            load(&before, &loadable(&imports("wasi_unstable", std::slice::from_ref(&function))))
                .unwrap_err();
        assert!(error.contains("missing import"), "{}: {error}", function.name);
    }
}

#[test]
fn envoys_expect_exports_of_the_types_of_the_table() {
    let newest = get(NEWEST);
    for (abi, name) in ABIS {
        let export = |function: &Function| {
            let result = if function.signature.ends_with("()") { "" } else { "i32.const 1" };
            format!(
                r#"(func (export "{}") {} {result})"#,
                function.name,
                text_type(&function.signature)
            )
        };
        let all = looked_for(abi);
        let exports = all.iter().map(export).collect::<String>();
        load(&newest, &with_abi(name, "", &exports))
            .unwrap_or_else(|error| panic!("ABI {abi}: {error}"));
    }
    for function in looked_for(Abi::V0_2_1) {
        let other = format!(r#"(func (export "{}") (param f32))"#, function.name);
        let malloc = if function.name == "malloc" { "" } else { MALLOC };
        let module = with_abi("0_2_1", "", &format!("{other}{malloc}"));
        // `proxy_on_memory_allocate` is not looked up if the module exports `malloc`.
        let expected = function.name == "proxy_on_memory_allocate";
        assert_eq!(load(&newest, &module).is_ok(), expected, "{}", function.name);
    }
}

#[test]
fn envoys_and_inspect_agree_on_each_module() {
    let abi = r#"(func (export "proxy_abi_version_0_2_1"))"#;
    let memory = r#"(memory (export "memory") 1)"#;
    let cases = [
        ("the builtin one", laststream::module::builtin().unwrap().to_owned(), true),
        ("as small as can be", loadable(""), true),
        ("no ABI", wasm(&format!("(module {memory} {MALLOC})")), false),
        (
            "an ABI of the future",
            wasm(&format!(
                r#"(module {memory} {MALLOC} (func (export "proxy_abi_version_0_3_0")))"#
            )),
            false,
        ),
        ("no function that allocates memory", wasm(&format!("(module {memory} {abi})")), false),
        ("an unknown import", loadable(r#"(import "env" "proxy_surprise" (func))"#), false),
        (
            "an import from nowhere",
            loadable(r#"(import "wasi_snapshot_preview2" "fd_write" (func))"#),
            false,
        ),
        (
            "an import of another type",
            loadable(r#"(import "env" "proxy_log" (func (param i32 i32) (result i32)))"#),
            false,
        ),
        ("an imported global", loadable(r#"(import "env" "global" (global i32))"#), false),
        ("an imported table", loadable(r#"(import "env" "table" (table 1 funcref))"#), true),
        (
            "a call of another ABI",
            loadable(r#"(import "env" "proxy_clear_route_cache" (func (result i32)))"#),
            false,
        ),
    ];
    for envoy in [OLDEST, NEWEST].map(get) {
        for (name, module, expected) in &cases {
            let obstacles = obstacles(&analyse(module).unwrap());
            assert_eq!(obstacles.is_empty(), *expected, "{name}: {obstacles:?}");
            let loaded = load(&envoy, module);
            assert_eq!(loaded.is_ok(), *expected, "{name}: {loaded:?}");
        }
    }
}
