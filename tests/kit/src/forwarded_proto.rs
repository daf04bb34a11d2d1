//! The rows of `tests/cases/forwarded_proto/*.md`, and a client that sends them. The cases on
//! Envoys and the cases in the mesh share them; each of the two sets up the listeners of the rows
//! in its own way.

/// A file of the tables.
macro_rules! text {
    ($name:literal) => {
        include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/../cases/forwarded_proto/", $name))
    };
}

pub mod cells;
pub mod client;
pub mod listeners;
pub mod markdown;
pub mod proxy_header;
pub mod table;
