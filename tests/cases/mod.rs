//! The cases, a file for each subject.

mod border;
mod configuration;
mod counting;
mod demo_page;
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
mod self_check;
mod stage;

use crate::lab::{Case, EnvoylessCase};

/// In the order in which they begin. The one that takes longest is first, so that nothing waits for
/// it in the end.
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
        self_check::cases(),
    ]
    .concat()
}

/// Those that are run once.
pub(crate) fn without_envoy() -> Vec<EnvoylessCase> {
    [
        demo_page::cases(),
        kubectl::cases(),
        monitoring::without_envoy(),
        registry::cases(),
        release::cases(),
    ]
    .concat()
}
