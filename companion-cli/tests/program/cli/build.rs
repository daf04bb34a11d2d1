//! `build`: the same bytes in every folder, and errors that help.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use tempfile::TempDir;

use kit::Outcome;
use kit::checkout::copy_checkout;
use kit::command::{CommandOutput, run};
use kit::process::Process;
use kit::programs::which;
use kit::user::write_script;
use kit::wait::until;
use laststream_module::compile::EXPORTS;
use rustix::process::{Pid, Signal, test_kill_process};

use crate::cli::support::PROGRAM;

/// A copy of the project somewhere else, with an `output` and a `bin` folder beside it.
struct Elsewhere {
    folder: TempDir,
}

impl Elsewhere {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        copy_checkout(&folder.path().join("a project")).unwrap();
        for name in ["bin", "output"] {
            fs::create_dir(folder.path().join(name)).unwrap();
        }
        Self { folder }
    }

    fn path(&self, below: &str) -> PathBuf {
        self.folder.path().join(below)
    }

    /// Runs the program there, with `bin` first on the search path.
    fn command(&self, arguments: &[&str]) -> Command {
        let mut path = self.path("bin").into_os_string();
        path.push(":");
        path.push(std::env::var_os("PATH").unwrap());
        let mut command = Command::new(PROGRAM);
        command
            .current_dir(self.path("a project/filter/src"))
            .env("PATH", path)
            .env_remove("CARGO")
            .env_remove("RUSTC")
            .arg("build")
            .args(arguments);
        command
    }

    fn build(&self, arguments: &[&str]) -> Outcome<CommandOutput> {
        run(&mut self.command(arguments))
    }

    /// A compiler that answers requests for this pattern by these commands.
    fn with_compiler(&self, pattern: &str, commands: &str) -> Outcome {
        let real = which("rustc").unwrap();
        let text = format!(
            "case \"$*\" in {pattern}) {commands} ;; esac\nexec '{}' \"$@\"",
            real.display()
        );
        write_script(&self.path("bin/rustc"), &text)
    }

    /// In place of the project, cargo compiles a library that has no more than the module's
    /// exports and a version.
    fn with_small_library(&self) -> Outcome {
        let source = self.path("small.rs");
        let function =
            |name: &&str| format!("#[unsafe(no_mangle)]\npub extern \"C\" fn {name}() {{}}\n");
        let version = "#[used]\n#[unsafe(link_section = \"laststream\")]\n\
                       static VERSION: [u8; 29] = *b\"version=0.1.0 configuration=1\";\n";
        let functions: String = EXPORTS.iter().map(function).collect();
        fs::write(&source, format!("{version}{functions}"))?;
        let text = format!(
            "while [ \"$1\" != --target-dir ]; do shift; done\n\
             folder=$2/wasm32-unknown-unknown/wasm; mkdir -p \"$folder\"\n\
             exec rustc --edition 2024 -C codegen-units=1 --crate-type staticlib \
             --target wasm32-unknown-unknown -o \"$folder/liblaststream_filter.a\" '{}'",
            source.display()
        );
        write_script(&self.path("bin/cargo"), &text)
    }
}

/// Another folder and another home of cargo: the bytes are those inside this program.
#[test]
fn two_builds_give_the_same_bytes() -> Outcome {
    let elsewhere = Elsewhere::new();
    let home = elsewhere.path("another home");
    fs::create_dir(&home)?;
    let own = std::env::var_os("CARGO_HOME")
        .map_or_else(|| std::env::home_dir().unwrap().join(".cargo"), PathBuf::from);
    std::os::unix::fs::symlink(own.join("registry"), home.join("registry")).unwrap();
    let file = elsewhere.path("output/plugin.wasm");
    let mut command = elsewhere.command(&["-o", "json", "--file", file.to_str().unwrap()]);
    let made = run(command
        .env("CARGO_HOME", &home)
        .env("CARGO_TARGET_DIR", elsewhere.path("never used")))?
    .expect(0)?
    .json()?;
    assert_eq!(made["path"], file.to_str().unwrap());
    let bytes = fs::read(&file)?;
    assert!(bytes == laststream_module::builtin().unwrap(), "other bytes: {made:#}");
    assert_eq!(made["size"], bytes.len());
    assert!(made["compiler"].as_str().unwrap().starts_with("rustc 1."), "{made:#}");
    assert!(!elsewhere.path("never used").exists() && !elsewhere.path("a project/target").exists());
    Ok(())
}

#[test]
fn the_target_is_added_where_that_is_allowed() -> Outcome {
    let elsewhere = Elsewhere::new();
    // The compiler says that it cannot compile for wasm32, until the file `added` is there.
    let added = elsewhere.path("added").display().to_string();
    let answer = format!("[ -e '{added}' ] || {{ echo /nowhere; exit; }}");
    elsewhere.with_compiler("*target-libdir*", &answer)?;
    elsewhere.with_small_library()?;
    elsewhere.build(&["--no-install"])?.expect(2)?.stderr_contains(
        "may not be installed by this build: run `rustup target add wasm32-unknown-unknown`",
    )?;
    write_script(&elsewhere.path("bin/rustup"), "echo no network >&2; exit 1")?;
    elsewhere
        .build(&[])?
        .expect(2)?
        .stderr_contains("adding the Rust target wasm32-unknown-unknown")?
        .stderr_contains("rustup could not add it: no network")?;
    write_script(
        &elsewhere.path("bin/rustup"),
        &format!("[ \"$*\" = 'target add wasm32-unknown-unknown' ] && touch '{added}'"),
    )?;
    elsewhere
        .build(&["--file", "made.wasm"])?
        .expect(0)?
        .stderr_contains("adding the Rust target wasm32-unknown-unknown")?
        .stderr_contains("compiling the module from")?;
    assert!(elsewhere.path("a project/filter/src/made.wasm").is_file());
    Ok(())
}

/// Imitates a distribution's Rust, which has the target in a package and no linker of its own.
#[test]
fn the_error_of_a_missing_linker_names_the_fix() -> Outcome {
    let elsewhere = Elsewhere::new();
    elsewhere.with_compiler("'--print target-libdir'", "echo /nowhere/lib; exit")?;
    elsewhere
        .build(&[])?
        .expect(2)?
        .stderr_contains("has no linker for WebAssembly, `/nowhere/bin/rust-lld`")?
        .stderr_contains("install Rust with rustup")?;
    Ok(())
}

#[test]
fn a_failed_build_leaves_the_old_file() -> Outcome {
    let elsewhere = Elsewhere::new();
    let file = elsewhere.path("output/old.wasm");
    fs::write(&file, "old")?;
    write_script(&elsewhere.path("bin/cargo"), "echo 'text.rs: this is no Rust' >&2; exit 101")?;
    elsewhere
        .build(&["--file", file.to_str().unwrap()])?
        .expect(2)?
        .stderr_contains("the module does not compile")?
        .stderr_contains("text.rs")?;
    assert_eq!(fs::read(&file).unwrap(), b"old");
    Ok(())
}

#[test]
fn an_unwritable_path_is_reported_before_the_build() -> Outcome {
    let elsewhere = Elsewhere::new();
    for (file, words) in [
        ("dist/x.wasm", "`dist/x.wasm`: there is no folder `"),
        (".", "`.`: it is a folder: name a file"),
    ] {
        let said = elsewhere.build(&["--file", file])?.expect(2)?;
        said.stderr_contains(words)?.hides("compiling")?;
    }
    Ok(())
}

#[test]
fn a_module_that_the_optimiser_breaks_is_not_written() -> Outcome {
    let elsewhere = Elsewhere::new();
    elsewhere.with_small_library()?;
    let file = elsewhere.path("output/new.wasm");
    let arguments = ["--wasm-opt", "--file", file.to_str().unwrap()];
    write_script(&elsewhere.path("bin/wasm-opt"), "echo too old >&2; exit 3")?;
    elsewhere
        .build(&arguments)?
        .expect(2)?
        .stderr_contains("`wasm-opt` failed (exit status: 3): too old")?
        .hides("compiling")?; // it is known before
    // `-Oz FEATURE… MODULE -o OUTPUT`: the last argument is the file to write.
    write_script(
        &elsewhere.path("bin/wasm-opt"),
        "for last; do :; done\nprintf '\\0asm\\1\\0\\0\\0' >\"$last\"",
    )?;
    elsewhere
        .build(&arguments)?
        .expect(2)?
        .stderr_contains("the module that was made is no module for proxies")?;
    assert!(!file.exists());
    Ok(())
}

#[test]
fn the_error_of_a_missing_optimiser_names_the_fix() -> Outcome {
    let elsewhere = Elsewhere::new();
    let mut command = elsewhere.command(&["--wasm-opt"]);
    run(command.env("PATH", elsewhere.path("bin")))?
        .expect(2)?
        .stderr_contains("cannot start `wasm-opt`")?
        .stderr_contains("apt install binaryen")?;
    Ok(())
}

#[test]
fn the_error_of_a_missing_checkout_names_the_builtin_module() -> Outcome {
    let folder = tempfile::tempdir()?;
    let here = folder.path().to_str().unwrap();
    run(Command::new(PROGRAM).current_dir(here).arg("build"))?
        .expect(2)?
        .stderr_contains("`--source DIR`")?
        .stderr_contains("`laststream module > laststream.wasm`")?;
    run(Command::new(PROGRAM).args(["build", "--source", here]))?
        .expect(2)?
        .stderr_contains("is no checkout of laststream")?
        .stderr_contains("`laststream module > laststream.wasm`")?;
    Ok(())
}

#[test]
fn a_signal_ends_cargo_and_its_children() -> Outcome {
    let elsewhere = Elsewhere::new();
    let (pids, scratch) = (elsewhere.path("pids"), elsewhere.path("scratch"));
    fs::create_dir(&scratch)?;
    let text = format!("sleep 600 & echo \"$$ $!\" >'{}'; wait", pids.display());
    write_script(&elsewhere.path("bin/cargo"), &text)?;
    let mut command = elsewhere.command(&["--file", "made.wasm"]);
    command.env("TMPDIR", &scratch);
    let mut process = Process::capture(&command)?;
    let written = || fs::read_to_string(&pids).unwrap_or_default();
    until("cargo runs", || written().split_whitespace().count() == 2)?;
    assert_eq!(fs::read_dir(&scratch)?.count(), 1, "the folder of the build");
    process.signal(Signal::TERM)?;
    process.finish()?;
    for pid in written().split_whitespace().map(|pid| pid.parse().unwrap()) {
        let gone = || Pid::from_raw(pid).is_some_and(|pid| test_kill_process(pid).is_err());
        until("a program of the build ends", gone)?;
    }
    assert_eq!(fs::read_dir(&scratch)?.count(), 0, "nothing half-made remains");
    Ok(())
}
