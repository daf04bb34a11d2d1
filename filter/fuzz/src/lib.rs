//! Shared code of the fuzz targets: naive versions of the module's logic, for comparison, and
//! generators of plausible inputs.

pub mod by_schema;
pub mod host;
pub mod map;
pub mod ranges;
pub mod request;
