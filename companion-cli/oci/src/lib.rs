//! Modules as OCI images: making them ([`image`]), pushing and pulling ([`registry`]) and signing
//! ([`sign`]).

#![allow(missing_docs, reason = "a comment says why: names and types say what")]

pub mod image;
pub mod registry;
pub mod sign;
