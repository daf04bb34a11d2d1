//! Options that several commands share.

pub(crate) mod cluster;
pub(crate) mod pods;
pub(crate) mod registry;
pub(crate) mod scan;
