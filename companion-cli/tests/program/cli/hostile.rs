//! Files and images made to hurt their reader: without an end, not regular, or full of control
//! characters.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::process::{Command, Stdio};

use serde_json::json;

use kit::Outcome;
use kit::command::{CommandOutput, run, run_reading};

use crate::cli::registry::{OCI_LAYER, OCI_MANIFEST, Registry, gzip, tar};
use crate::cli::support::{PROGRAM, wasm};

/// Kilobytes of address space. Looking into the largest allowed module takes less than half of it.
const MEMORY: &str = "2500000";
/// Seconds; only a reader that waits for a pipe or reads without an end takes longer.
const PATIENCE: &str = "300";

/// The program with a limit on memory and time; it is killed at the latter, with the exit code 124.
fn limited<A: AsRef<OsStr>>(arguments: impl IntoIterator<Item = A>) -> Command {
    let mut command = Command::new("sh");
    command.args([
        "-c",
        &format!("ulimit -v {MEMORY}; ulimit -c 0; exec timeout {PATIENCE} \"$@\""),
        "sh",
        PROGRAM,
    ]);
    command.args(arguments).stdin(Stdio::null()).env("CLICOLOR_FORCE", "1");
    command
}

fn inspect(subject: &str) -> Outcome<CommandOutput> {
    run(&mut limited(["inspect", subject]))
}

/// A file of 2 GiB in two blocks: GNU's sparse format stores no zeros.
fn sparse(name: &str) -> Vec<u8> {
    let mut header = tar::Header::new_gnu();
    header.set_path(name).unwrap();
    header.set_entry_type(tar::EntryType::GNUSparse);
    header.set_size(512);
    header.set_mode(0o644);
    let gnu = header.as_gnu_mut().unwrap();
    gnu.realsize = *b"20000000000\0"; // 2 GiB in octal; the most that these digits hold is 8 GiB
    gnu.sparse[0].offset = *b"17777777000\0";
    gnu.sparse[0].numbytes = *b"00000001000\0";
    header.set_cksum();
    let mut archive = header.as_bytes().to_vec();
    archive.extend([b'x'; 512]);
    archive
}

#[test]
fn a_sparse_file_in_a_layer_takes_no_memory() -> Outcome {
    let layer = gzip(&[sparse("plugin.wasm"), vec![0; 1024]].concat());
    let registry = Registry::with_image(OCI_MANIFEST, &[(OCI_LAYER, layer)])?;
    inspect(&registry.image())?.expect(1)?.stdout_contains("has 2147483648 bytes")?;
    Ok(())
}

#[test]
fn pipes_and_devices_are_not_waited_for() -> Outcome {
    let folder = tempfile::tempdir()?;
    let path = |name: &str| folder.path().join(name).into_os_string().into_string().unwrap();
    for name in ["a.wasm", "policy.yaml"] {
        assert!(Command::new("mkfifo").arg(path(name)).status()?.success());
    }
    let (module, policy) = (path("a.wasm"), path("policy.yaml"));
    for arguments in [
        vec!["inspect", &module],
        vec!["inspect", "/dev/zero"],
        vec!["push", "--dry-run", "--module", &module, "localhost:1/a:1"],
        vec!["push", "--ca-file", &policy, "localhost:1/a:1"],
        vec!["config", "check", &policy],
        vec!["config", "check", "/dev/zero"],
        vec!["render", "envoyfilter", "--policy", &policy],
        vec!["lint", &policy],
        vec!["status", "--secret-file", &policy],
    ] {
        let ended = run(&mut limited(&arguments))?;
        assert!(ended.stderr.contains("not a regular file"), "{arguments:?}: {ended:?}");
    }
    Ok(())
}

#[test]
fn endless_input_is_read_up_to_a_limit() -> Outcome {
    let folder = tempfile::tempdir()?;
    let huge = folder.path().join("huge.wasm");
    File::create(&huge).unwrap().set_len(1 << 40).unwrap();
    inspect(huge.to_str().unwrap())?.expect(2)?.stderr_contains("larger than")?;
    for arguments in [&["inspect", "-"][..], &["config", "check", "-"]] {
        run_reading(&mut limited(arguments), File::open("/dev/zero")?)?
            .expect(2)?
            .stderr_contains("larger than")?;
    }
    Ok(())
}

/// A shell turns `<(…)` into a pipe, which is intended input.
#[test]
fn pipes_of_a_shell_are_read() -> Outcome {
    let mut shell = Command::new("bash");
    shell.args(["-c", r#""$0" config check <(echo '{"scope": "inbound"}')"#, PROGRAM]);
    run(&mut shell)?.expect(0)?;
    Ok(())
}

/// Rewrites a line, hides text, begins a new line, and reverses what follows, in every way
/// there is.
const TRICKS: &str =
    "x\r\u{1b}[2K\u{1b}]0;t\u{7}\u{8}\u{7f}\u{85}\u{9b}2K\u{202e}\u{2066}\u{2028}\nISTIO OK";

/// Asserts that nothing but our own colours steers the terminal.
#[track_caller]
fn assert_visible(text: &str) {
    let colourless =
        text.split('\u{1b}').enumerate().map(|(index, part)| match part.split_once('m') {
            Some((code, rest))
                if index > 0
                    && code.starts_with('[')
                    && code[1..].bytes().all(|byte| byte.is_ascii_digit() || byte == b';') =>
            {
                rest
            }
            _ if index > 0 => "\u{1b}",
            _ => part,
        });
    let colourless: String = colourless.collect();
    let steers = |character: char| {
        (character.is_control() && character != '\n')
            || matches!(character, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
            || "\u{200e}\u{200f}\u{61c}\u{2028}\u{2029}".contains(character)
    };
    let found: Vec<char> = colourless.chars().filter(|&character| steers(character)).collect();
    assert!(found.is_empty(), "{found:?} in {text:?}");
    assert!(!colourless.lines().any(|line| line.starts_with("ISTIO OK")), "{text:?}");
}

/// An image in which every text is a trick.
fn tricky() -> Outcome<Registry> {
    let registry = Registry::start()?;
    let module = wasm(&format!(
        r#"(module (import "{0}" "{0}" (func)) (@custom "{0}" "x") (memory (export "memory") 1)
            (func (export "proxy_abi_version_0_2_1"))
            (func (export "malloc") (param i32) (result i32) i32.const 0) (func (export "{0}")))"#,
        TRICKS
            .escape_default()
            .to_string()
            .replace("\\u{7f}", "\\7f")
            .replace("\\r", "\\0d")
            .replace("\\n", "\\0a")
    ));
    let mut layer = registry.blob(OCI_LAYER, &gzip(&tar(&[("plugin.wasm", &module)])));
    let mut config = registry.blob("x", b"{}");
    config["mediaType"] = TRICKS.into();
    layer["annotations"] = json!({ TRICKS: TRICKS });
    let manifest = json!({ "schemaVersion": 2, "mediaType": OCI_MANIFEST, "config": config,
        "layers": [layer], "annotations": { TRICKS: TRICKS } });
    let mut manifest = registry.add(&manifest);
    manifest["platform"] = json!({ "os": "linux", "architecture": "amd64" });
    let mut other = manifest.clone();
    other["platform"] = json!({ "os": TRICKS, "architecture": TRICKS });
    registry.tag(&json!({
        "schemaVersion": 2, "mediaType": TRICKS, "manifests": [manifest, other],
    }));
    Ok(registry)
}

#[test]
fn an_image_cannot_rewrite_its_verdict() -> Outcome {
    let image = tricky()?.image();
    let told = inspect(&image)?.expect(1)?;
    assert_visible(&told.stdout);
    assert_visible(&told.stderr);
    told.stdout_contains("\\u{202e}")?.stdout_contains("\\u{9b}")?;
    let told = run(&mut limited(["inspect", "-o", "json", &image]))?;
    assert_visible(&told.stdout);
    assert_eq!(told.json()?["image"]["media_type"], TRICKS, "the same text for programs");
    Ok(())
}

#[test]
fn names_in_an_image_cannot_rewrite_errors() -> Outcome {
    let registry = Registry::start()?;
    let named = json!({ "digest": format!("sha256:{TRICKS}"), "size": 1 });
    registry.tag(&json!({ "manifests": [named] }));
    assert_visible(&inspect(&registry.image())?.expect(2)?.stderr);
    Ok(())
}

#[test]
fn a_policy_or_a_manifest_cannot_steer_the_terminal() -> Outcome {
    let folder = tempfile::tempdir()?;
    let file = folder.path().join("a.yaml");
    let trick = json!(TRICKS)
        .to_string()
        .replace('\u{7f}', "\\x7f")
        .replace('\u{85}', "\\x85")
        .replace('\u{9b}', "\\x9b");
    for text in [
        format!("name: {trick}\n"),
        format!("{trick}: 1\n"),
        format!("drain: {{begin: {trick}}}\n"),
        format!("placement: {{namespace: {trick}}}\n"),
        format!("forwarded_proto: {{from: [{trick}]}}\n"),
        format!("x: \u{202e}y # {trick}\n"),
    ] {
        fs::write(&file, &text)?;
        let name = file.to_str().unwrap();
        for arguments in [
            vec!["render", "envoyfilter", "--policy", name],
            vec!["lint", name],
            vec!["config", "check", name],
        ] {
            let told = run(&mut limited(&arguments))?;
            assert_visible(&told.stdout);
            assert_visible(&told.stderr);
        }
    }
    Ok(())
}
