//! Modules as OCI images: making them ([`image`]), pushing and pulling ([`registry`]) and signing
//! ([`sign`]).

#![allow(missing_docs, reason = "a comment says why: the names of an internal crate say what")]

pub mod image;
pub mod registry;
pub mod sign;
