//! The border to Envoy: proxy-wasm ABI 0.2.1, called and offered directly.
//!
//! The usual SDK is not used, for four reasons: it exports every callback, so Envoy would enter the module for each body chunk; it
//! panics on header values that are not UTF-8 and on statuses that it does not know, and a panic takes the VM with all its streams
//! down; and it costs nearly as much per request as the whole of this module.
//!
//! This is the only place with `unsafe`. Two rules keep it sound: memory that the host fills comes from [`exports::proxy_on_memory_allocate`]
//! and is taken over exactly once, with the length that was asked for; and a pointer handed to the host is not used by it after the call.
#![allow(unsafe_code, reason = "host calls and exported symbols are the border of the Wasm sandbox")]

mod exports;
mod imports;

use crate::identity::TEXT;

#[global_allocator]
static MEMORY: talc::wasm::WasmDynamicTalc = talc::wasm::new_wasm_dynamic_allocator();

/// What the module says of itself, readable without running it.
#[used]
#[unsafe(link_section = "laststream")]
static IDENTITY: [u8; TEXT.len()] = {
    let mut bytes = [0; TEXT.len()];
    bytes.copy_from_slice(TEXT.as_bytes());
    bytes
};
