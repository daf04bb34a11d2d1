//! The Wasm module as a file: compiling it from a checkout.

pub mod compile;
