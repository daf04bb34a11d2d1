//! The output of `inspect` for modules.

use std::fs;

use serde_json::json;

use kit::Outcome;
use kit::command::CommandOutput;

use crate::support::{laststream, loadable, wasm};

fn inspect(bytes: &[u8], more: &[&str]) -> Outcome<CommandOutput> {
    let folder = tempfile::tempdir()?;
    fs::write(folder.path().join("some.wasm"), bytes)?;
    laststream(folder.path(), ["inspect", "some.wasm"].iter().chain(more))
}

#[track_caller]
fn refused(bytes: &[u8], words: &str) -> Outcome {
    let ran = inspect(bytes, &[])?.expect(1)?;
    for consumer in ["Istio", "Envoy Gateway", "Envoy"] {
        let verdict = ran
            .stdout
            .lines()
            .find_map(|line| line.trim().strip_prefix(&format!("{consumer}: no, because ")))
            .unwrap_or_default();
        assert!(verdict.contains(words), "{consumer}: `{words}` is not in: {}", ran.stdout);
    }
    Ok(())
}

/// `inspect` of the module inside the program agrees with `version`.
#[test]
fn the_builtin_module_is_ok_for_all() -> Outcome {
    let bytes = laststream::module::builtin().unwrap();
    let told = inspect(bytes, &["-o", "json"])?.expect(0)?.json()?;
    let version =
        laststream(&std::env::temp_dir(), ["version", "-o", "json"])?.expect(0)?.json()?;
    for field in ["version", "abi", "configuration", "size", "sha256"] {
        assert_eq!(told["module"][field], version["module"][field], "{field}");
    }
    assert_eq!(told["module"]["version"], env!("CARGO_PKG_VERSION"));
    assert_eq!(told["module"]["abi"], "0.2.1");
    assert_eq!(told["module"]["size"], bytes.len());
    assert_eq!(told["checksums"][0]["of"], "module");
    assert_eq!(told["checksums"][0]["sha256"], told["module"]["sha256"]);
    assert_eq!(told["image"], json!(null));
    let answers: Vec<_> =
        told["verdicts"].as_array().unwrap().iter().map(|verdict| &verdict["answer"]).collect();
    assert_eq!(answers, ["ok", "ok", "ok"]);
    Ok(())
}

#[test]
fn modules_of_others_are_distinguished_from_laststream() -> Outcome {
    let ran = inspect(&loadable(""), &[])?.expect(0)?;
    assert!(ran.stdout.contains("version  not of laststream"), "{}", ran.stdout);
    let pretender = loadable(r#"(@custom "laststream" "not what we write")"#);
    let told = inspect(&pretender, &["-o", "json"])?.expect(0)?.json()?;
    assert_eq!(told["module"]["version"], json!(null));
    assert_eq!(told["module"]["custom_sections"][0], json!({"name": "laststream", "size": 17}));
    Ok(())
}

#[test]
fn input_that_is_no_module_is_named() -> Outcome {
    refused(b"", "is empty")?;
    refused(b"<html>", "is not WebAssembly")?;
    refused(b"\x1f\x8b\x08", "is compressed with gzip")?;
    refused(b"PK\x03\x04", "is a zip archive")?;
    refused(&wasm("(component)"), "is a WebAssembly component")?;
    refused(b"\0asm\x01\0\0\0\xff", "is a damaged module")?;
    let whole = loadable("");
    refused(&whole[..whole.len() - 1], "is a damaged module")?;
    Ok(())
}

#[test]
fn all_obstacles_are_reported_at_once() -> Outcome {
    let nothing = inspect(&wasm("(module)"), &["-o", "json"])?.expect(1)?.json()?;
    let because = nothing["verdicts"][0]["because"].as_array().unwrap();
    assert_eq!(because.len(), 3, "{because:?}");
    Ok(())
}

#[test]
fn for_limits_the_verdicts_to_the_named_consumers() -> Outcome {
    let later =
        loadable(r#"(import "wasi_snapshot_preview1" "fd_sync" (func (param i32) (result i32)))"#);
    let ran = inspect(&later, &[])?.expect(1)?;
    let because = "because it imports `wasi_snapshot_preview1.fd_sync`, which came with Envoy 1.39";
    for verdict in [
        format!("Istio: only 1.31 and later, whose Envoy is 1.39, {because}"),
        format!("Envoy Gateway: only with Envoy 1.39 and later, {because}"),
        format!("Envoy: only with Envoy 1.39 and later, {because}"),
    ] {
        assert!(ran.stdout.contains(&verdict), "{verdict}: {}", ran.stdout);
    }
    let told = inspect(&later, &["--for", "envoy", "-o", "json"])?.expect(1)?.json()?;
    assert_eq!(told["verdicts"].as_array().unwrap().len(), 1);
    assert_eq!(told["verdicts"][0]["consumer"], "envoy");
    inspect(&later, &["--for", "envoi"])?.expect(64)?;
    Ok(())
}

#[test]
fn a_missing_file_is_an_error_and_no_finding() -> Outcome {
    let folder = tempfile::tempdir()?;
    laststream(folder.path(), ["inspect", "missing.wasm"])?
        .expect(2)?
        .stderr_contains("`missing.wasm`: No such file")?;
    laststream(folder.path(), ["inspect", "missing.tar"])?
        .expect(2)?
        .stderr_contains("`missing.tar`")?;
    laststream(folder.path(), ["inspect", "."])?.expect(2)?.stderr_contains("no OCI layout")?;
    // Such a name is not looked up on Docker Hub.
    for missing in ["layout", "build/module", "my.module"] {
        let words = format!("no such file; for an image on Docker Hub write `{missing}:TAG`");
        laststream(folder.path(), ["inspect", missing])?.expect(2)?.stderr_contains(&words)?;
    }
    Ok(())
}

/// The analysis of any bytes ends, with a result or an error.
#[test]
fn damaged_modules_do_no_harm() {
    let whole = loadable(
        r#"
            (
                import "env" "proxy_log" (func (param i32 i32 i32) (result i32))
            ) (table 1 funcref) (global i32 (i32.const 1))
        "#,
    );
    let mut random = fastrand::Rng::with_seed(5);
    for _ in 0..20_000 {
        let mut bytes = whole.clone();
        for _ in 0..random.usize(1..4) {
            let place = random.usize(8..bytes.len());
            bytes[place] = random.u8(..);
        }
        bytes.truncate(random.usize(8..=bytes.len()));
        if let Ok(module) = laststream::module::analysis::analyse(&bytes) {
            let _any = laststream::module::verdict::obstacles(&module);
        }
    }
}
