//! End to end: the real module in real Envoys. One trial for each case and each Envoy version; `cargo test --test envoy -- --list` shows them.

mod support;

use std::process::ExitCode;

fn main() -> ExitCode {
    let arguments = libtest_mimic::Arguments::from_args();
    libtest_mimic::run(&arguments, Vec::new()).exit_code()
}
