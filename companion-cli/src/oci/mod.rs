//! Modules as OCI images: how they are made ([`image`]), carried ([`registry`]), looked into
//! ([`inspect`]) and signed ([`sign`]).

pub mod image;
pub mod inspect;
pub mod registry;
pub mod sign;
