//! The output of `inspect` for modules.

use std::fs;

use serde_json::json;

use kit::Outcome;
use kit::command::CommandOutput;

use crate::cli::support::{laststream, loadable, wasm};

fn inspect(bytes: &[u8], more: &[&str]) -> Outcome<CommandOutput> {
    let folder = tempfile::tempdir()?;
    fs::write(folder.path().join("some.wasm"), bytes)?;
    laststream(folder.path(), ["inspect", "some.wasm"].iter().chain(more))
}

#[track_caller]
fn refused(bytes: &[u8], words: &str) -> Outcome {
    let ran = inspect(bytes, &[])?.expect(1)?;
    let verdict = ran.stdout.lines().find(|line| line.contains("cannot load it, because"));
    assert!(verdict.is_some_and(|line| line.contains(words)), "`{words}`: {}", ran.stdout);
    Ok(())
}

/// `inspect` of the module inside the program agrees with `version`.
#[test]
fn the_builtin_modules_are_recognised() -> Outcome {
    let bytes = laststream_module::builtin().unwrap();
    let told = inspect(bytes, &["-o", "json"])?.expect(0)?.json()?;
    let version =
        laststream(&std::env::temp_dir(), ["version", "-o", "json"])?.expect(0)?.json()?;
    for field in ["version", "kind", "configuration", "size", "sha256"] {
        assert_eq!(told["module"][field], version["module"][field], "{field}");
    }
    assert_eq!(told["module"]["version"], env!("CARGO_PKG_VERSION"));
    assert_eq!(told["module"]["kind"], "module");
    assert_eq!(told["module"]["size"], bytes.len());
    assert_eq!(told["checksums"][0]["of"], "module");
    assert_eq!(told["checksums"][0]["sha256"], told["module"]["sha256"]);
    assert_eq!(told["image"], json!(null));
    assert_eq!(told["because"], json!([]));
    let frames = inspect(laststream_module::builtin_frames().unwrap(), &[])?.expect(0)?;
    frames.stdout_contains("laststream's frame filter")?;
    Ok(())
}

#[test]
fn modules_of_others_are_distinguished_from_laststream() -> Outcome {
    let plain = inspect(&loadable(""), &[])?.expect(0)?;
    plain.stdout_contains("what     a module that is not of laststream")?;
    let pretender = loadable(r#"(@custom "laststream" "not what we write")"#);
    let told = inspect(&pretender, &["-o", "json"])?.expect(0)?.json()?;
    assert_eq!(told["module"]["version"], json!(null));
    assert_eq!(told["module"]["kind"], "foreign");
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
    refused(&wasm("(module)"), "is no module for proxies")?;
    Ok(())
}

#[test]
fn a_missing_file_is_an_error_and_no_finding() -> Outcome {
    let folder = tempfile::tempdir()?;
    laststream(folder.path(), ["inspect", "missing.wasm"])?
        .expect(2)?
        .stderr_contains("`missing.wasm`: No such file")?;
    laststream(folder.path(), ["inspect", "."])?
        .expect(2)?
        .stderr_contains("not a regular file")?;
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
    for _ in 0..5_000 {
        let mut bytes = whole.clone();
        for _ in 0..random.usize(1..4) {
            let place = random.usize(8..bytes.len());
            bytes[place] = random.u8(..);
        }
        bytes.truncate(random.usize(8..=bytes.len()));
        let _any = laststream_module::analysis::analyse(&bytes);
    }
}
