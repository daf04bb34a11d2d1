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

use crate::lab::{Case, EnvoylessCase};

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

/// Cases that need no Envoy and run once, not once for each version.
pub(crate) fn without_envoy() -> Vec<EnvoylessCase> {
    [
        envoy_from_pypi::cases(),
        kubectl::cases(),
        monitoring::without_envoy(),
        registry::cases(),
        release::cases(),
    ]
    .concat()
}
