//! The Wasm modules as files and images: the built-in ones, compiling from a checkout, analysis
//! without running them, and what is inside an image.

#![allow(missing_docs, reason = "a comment says why: the names of an internal crate say what")]

pub mod analysis;
pub mod checkout;
pub mod compile;
pub mod inspect;
pub mod make;
pub mod optimise;
pub mod publish;

/// The module inside this program.
pub fn builtin() -> Result<&'static [u8], &'static str> {
    include!(concat!(env!("OUT_DIR"), "/builtin.rs"))
}

/// The module of the frame filter inside this program. Only routes of WebSockets need it.
pub fn builtin_frames() -> Result<&'static [u8], &'static str> {
    include!(concat!(env!("OUT_DIR"), "/builtin_frames.rs"))
}
