//! The gate: what it says, when it opens, what it does to Envoy.

mod bench;
mod drains;

use crate::lab::Case;

pub(crate) fn cases() -> Vec<Case> {
    drains::cases()
}
