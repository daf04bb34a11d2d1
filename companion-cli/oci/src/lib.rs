//! Modules as OCI images: making them ([`image`]), pushing and pulling ([`registry`]) and signing
//! ([`sign`]).

#![deny(missing_docs)]

pub mod image;
pub mod registry;
pub mod sign;
