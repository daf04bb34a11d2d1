//! Reports on pods and streams. Pure.

pub mod listing;
pub(crate) mod pod_report;
pub mod refusal;
pub mod table;
pub mod trouble;
