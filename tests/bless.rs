//! `cargo bless`: writes every file that tests compare and that is made from the code. `cargo bless
//! measured` writes what is measured: tables of the real mesh, and costs. That takes an hour.

use std::process::{Command, ExitCode};

/// The tests with these words in their names write their files.
const MADE: &[&str] = &[
    // One build for all.
    "test --test envoy --test lint --test program --bin laststream -- made_from",
    "test --package laststream-lint --lib -- made_from",
];
const MEASURED: &[&str] = &["mesh a1_", "mesh c1", "mesh fleet", "bench", "bench -- --check"];

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let commands = match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        [] => MADE,
        ["measured"] => MEASURED,
        _ => {
            eprintln!("cargo bless [measured]");
            return ExitCode::from(2);
        }
    };
    let failures = commands.iter().filter(|command| !succeeds(command)).count();
    // What has changed, so that nothing is committed unseen.
    let _ = Command::new("git").args(["status", "--short"]).status();
    if failures == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn succeeds(command: &str) -> bool {
    let status = Command::new(env!("CARGO"))
        .args(command.split(' '))
        .env("LASTSTREAM_BLESS", "1")
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .status();
    matches!(status, Ok(status) if status.success())
}
