//! End to end: the real module in real Envoys, and the command line. Each case that needs an Envoy
//! is one trial per version; `cargo test --test envoy -- --list` shows them.
//!
//! `LASTSTREAM_TEST_ENVOYS=all` runs every supported version instead of the newest.

mod cases;
mod docs;
mod lab;

use std::process::ExitCode;

use kit::completion;
use libtest_mimic::{Arguments, Trial};

use crate::lab::Envoys;

fn main() -> ExitCode {
    let mut arguments = Arguments::from_args();
    arguments.test_threads = arguments.test_threads.or_else(threads);
    libtest_mimic::run(&arguments, trials()).exit_code()
}

/// Most of a trial is waiting, so each core has room for seven.
fn threads() -> Option<usize> {
    std::thread::available_parallelism().ok().map(|cores| 7 * cores.get())
}

fn trials() -> Vec<Trial> {
    let versions = match lab::versions() {
        Ok(versions) => versions,
        Err(error) => {
            return vec![Trial::ignorable_test("envoy_versions", || completion(Err(error)))];
        }
    };
    let envoys = Envoys::default();
    let newest = versions.iter().max().copied();
    versions
        .into_iter()
        .flat_map(|version| envoys.trials(version, cases::of(Some(version) == newest)))
        .chain(docs::trials())
        .chain(lab::trials_without_envoy(cases::without_envoy()))
        .collect()
}
