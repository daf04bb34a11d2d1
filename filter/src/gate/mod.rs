//! The gate: refuses to drain and quit until the last stream is out, holds stop hooks, begins the drain, and always says why it waits.
//!
//! | where | what |
//! |---|---|
//! | [`machine`] | the drain as a machine, pure |
//! | [`http`] | what may be asked, pure |
//! | `policy`, `answers`, `stats`, `record` | the checked configuration; bodies; Envoy's own counts; the record as text |
//! | `census` | who counts, and who does not any more |
//! | `latch` | no stream begins while a signal passes |
//! | `root` | all of it together, in one worker |
//! | `waiting` | requests that are held |

pub mod answers;
mod census;
pub mod http;
mod latch;
pub mod machine;
pub(crate) mod policy;
mod record;
pub(crate) mod root;
mod stats;
mod waiting;
mod witness;
