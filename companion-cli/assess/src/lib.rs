//! What the next stop of a proxy cuts, computed from the settings of its pod. Pure: manifests and
//! clusters are read elsewhere.
//!
//! | where | what |
//! |---|---|
//! | `proxy` | the settings that decide how a proxy stops |
//! | `question` | what a stop hook asks a gate |
//! | `moment` | a time after the deletion, and how sure it is |
//! | `stop` | the stop that follows from the settings |
//! | `row` | workloads with their stops; the totals; JSON |
//! | `table` | rows as cells and as Markdown |

#![allow(missing_docs, reason = "a comment says why: the names of an internal crate say what")]

mod moment;
mod proxy;
mod question;
mod row;
mod stop;
mod table;
#[cfg(test)]
mod tests;

pub use moment::{Certainty, Moment};
pub use proxy::{Agent, Hook, Job, Manager, Proxy, ProxyGate, ProxyKind};
pub use question::Question;
pub use row::{Assessment, Row, Workload};
pub use stop::{Stop, Verdict};
pub use table::{TITLES, cells, markdown};
