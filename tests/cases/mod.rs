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

pub(crate) fn all() -> Vec<Case> {
    [
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
        monitoring::cases(),
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
