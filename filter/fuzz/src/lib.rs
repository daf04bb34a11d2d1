//! What the fuzz targets share: naive versions of what the module does, to compare with, and ways
//! to make inputs with some sense.

pub mod by_schema;
pub mod host;
pub mod map;
pub mod ranges;
pub mod request;
