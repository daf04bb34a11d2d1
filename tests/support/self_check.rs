//! Trials of the harness itself, on Envoys without the module: what the cases stand on holds.

mod basics;
mod dynamic;
mod mixed_load;
mod options;
mod protocols;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use libtest_mimic::{Failed, Trial};

use super::failure::Outcome;
use super::trial::block_on;

const DEADLINE: Duration = Duration::from_secs(120);

/// A way to Envoy's binary; asked for when the trial runs.
pub(crate) type Binary = Arc<dyn Fn() -> Outcome<PathBuf> + Send + Sync>;

/// One trial for each check; `version` only names them.
pub(crate) fn trials(version: &str, binary: &Binary) -> Vec<Trial> {
    let trial = |name: &str, check: fn(&Path) -> Outcome| {
        let binary = Arc::clone(binary);
        Trial::test(format!("harness::{name}::{version}"), move || {
            check(&binary()?).map_err(Failed::from)
        })
    };
    vec![
        trial("starts_stops_and_reads_stats", |binary| {
            block_on(DEADLINE, basics::starts_stops_and_reads_stats(binary))
        }),
        trial("says_why_envoy_does_not_start", |binary| {
            block_on(DEADLINE, basics::says_why_envoy_does_not_start(binary))
        }),
        trial("fails_a_trial_that_hangs", basics::fails_a_trial_that_hangs),
        trial("ends_processes_with_their_parent", |_| {
            block_on(DEADLINE, basics::ends_processes_with_their_parent())
        }),
        trial("replaces_listeners", |binary| {
            block_on(DEADLINE, dynamic::replaces_listeners(binary))
        }),
        trial("replaces_filters", |binary| block_on(DEADLINE, dynamic::replaces_filters(binary))),
        trial("reaches_admin_through_a_cluster", |binary| {
            block_on(DEADLINE, dynamic::reaches_admin_through_a_cluster(binary))
        }),
        trial("builds_what_envoy_accepts", |binary| {
            block_on(DEADLINE, options::builds_what_envoy_accepts(binary))
        }),
        trial("obeys_the_options", |binary| block_on(DEADLINE, options::obeys_the_options(binary))),
        trial("knows_the_direct_peer", |binary| {
            block_on(DEADLINE, protocols::knows_the_direct_peer(binary))
        }),
        trial("holds_and_releases", |binary| {
            block_on(DEADLINE, protocols::holds_and_releases(binary))
        }),
        trial("talks_http2", |binary| block_on(DEADLINE, protocols::talks_http2(binary))),
        trial("opens_websockets_and_tunnels", |binary| {
            block_on(DEADLINE, protocols::opens_websockets_and_tunnels(binary))
        }),
        trial("shows_client_certificates", |binary| {
            block_on(DEADLINE, protocols::shows_client_certificates(binary))
        }),
        trial("bears_a_mixed_load", |binary| {
            block_on(DEADLINE, mixed_load::leaves_nothing_open(binary))
        }),
    ]
}
