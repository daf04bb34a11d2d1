//! Modules as OCI images: making them ([`image`]), pushing and pulling ([`registry`]) and signing
//! ([`sign`]).

pub mod image;
pub mod registry;
pub mod sign;
