//! The cases, a file for each subject.

mod border;
mod configuration;
mod counting;
mod forwarded_proto;
mod gate;
mod hostile;
mod load;
mod manifests;
mod reloading;
mod stage;

use crate::lab::Case;

pub(crate) fn all() -> Vec<Case> {
    [
        border::cases(),
        configuration::cases(),
        counting::cases(),
        forwarded_proto::cases(),
        gate::cases(),
        hostile::cases(),
        load::cases(),
        manifests::cases(),
        reloading::cases(),
    ]
    .into_iter()
    .flatten()
    .collect()
}
