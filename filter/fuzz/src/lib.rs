//! Shared code of the fuzz targets: generators of plausible inputs.

pub mod by_schema;
