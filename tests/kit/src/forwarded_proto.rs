//! The rows of `tests/cases/forwarded_proto/*.md`, and a client that sends them. The cases on
//! Envoys and those in the mesh share them; how a row's listener comes to be is theirs.

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
