//! The cases, a file for each subject.

mod border;
mod configuration;
mod counting;
mod hostile;
mod load;
mod reloading;
mod stage;

use crate::lab::Case;

pub(crate) fn all() -> Vec<Case> {
    [border::cases(), configuration::cases(), counting::cases(), hostile::cases(), load::cases(), reloading::cases()].into_iter().flatten().collect()
}
