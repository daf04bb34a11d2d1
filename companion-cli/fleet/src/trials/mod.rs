//! What a cluster says to objects that are not there yet: a server-side dry run, with its webhooks
//! and admission policies, and the versions around it. Nothing is stored.

mod ask;
mod software;
mod verdict;

pub use software::Software;
pub use verdict::{Trial, Verdict};
