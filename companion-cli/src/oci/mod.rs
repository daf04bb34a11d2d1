//! Modules as OCI images: making them ([`image`]), pushing and pulling ([`registry`]), inspecting
//! ([`inspect`]) and signing ([`sign`]).

pub mod image;
pub mod inspect;
pub mod registry;
pub mod sign;
