//! What pods answer: their statistics and their gates, asked a bounded number at a time.

pub(crate) mod answer;
pub(crate) mod ask;
pub(crate) mod confirmation;
pub(crate) mod forward;
pub(crate) mod pod_timeout;
pub(crate) mod statistics;
pub(crate) mod stats;
pub(crate) mod survey;
