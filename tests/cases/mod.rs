//! The cases, a file for each subject.

mod border;
mod configuration;
mod counting;
mod envoy_from_pypi;
mod forwarded_proto;
mod frames;
mod gate;
mod guards;
mod hostile;
mod kubectl;
mod load;
mod manifests;
mod monitoring;
mod registry;
mod release;
mod reloading;
mod stage;

use crate::lab::{Case, EnvoylessCase, envoyless};
use kit::prelude::*;

/// The cases in the order in which they start. The slowest file is first, because it would
/// otherwise be the last to end.
pub(crate) fn all() -> Vec<Case> {
    [
        monitoring::cases(),
        border::cases(),
        configuration::cases(),
        counting::cases(),
        forwarded_proto::cases(),
        frames::cases(),
        gate::cases(),
        guards::cases(),
        hostile::cases(),
        load::cases(),
        manifests::cases(),
        reloading::cases(),
    ]
    .concat()
}

/// Subjects that need an Envoy, and whose Envoy decides nothing: the command line as a client of
/// the gate, faults that are put into Envoy's answers, drains, and the gate's own interface.
const ON_THE_NEWEST: [&str; 15] = [
    "forwarded_proto::rows_are_many_and_sound",
    "gate::access_rendered::",
    "gate::admin_faults::",
    "gate::app::",
    "gate::commands::",
    "gate::drains::",
    "gate::false_hold::twenty_thousand_clusters",
    "gate::interface::",
    "gate::listing::",
    "gate::notify::",
    "gate::states::",
    "gate::upgrade::",
    "gate::waiters::",
    "hostile::",
    "monitoring::",
];

/// The cases of one version of Envoy.
pub(crate) fn of(is_newest: bool) -> Vec<Case> {
    let is_for_each = |case: &Case| !ON_THE_NEWEST.iter().any(|name| case.name.contains(name));
    all().into_iter().filter(|case| is_newest || is_for_each(case)).collect()
}

/// Cases that need no Envoy and run once, not once for each version.
pub(crate) fn without_envoy() -> Vec<EnvoylessCase> {
    [
        envoy_from_pypi::cases(),
        kubectl::cases(),
        monitoring::files::cases(),
        registry::cases(),
        release::cases(),
        vec![envoyless!(the_newest_alone_names_cases)],
    ]
    .concat()
}

/// Each name of [`ON_THE_NEWEST`] is that of a case.
fn the_newest_alone_names_cases() -> Outcome {
    let cases = all();
    for name in ON_THE_NEWEST {
        ensure!(cases.iter().any(|case| case.name.contains(name)), "no case is named {name}");
    }
    Ok(())
}
