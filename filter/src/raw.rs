//! The only `unsafe` of the workspace: four host calls that the SDK does not offer in this form,
//! a callback in front of one of the SDK's, and the custom section.
//!
//! - Header map: the SDK copies it into `String`s, which takes 15,000 more instructions per
//!   request, and panics if a name is not UTF-8.
//! - Property: the SDK builds its path in two allocations, which takes 700 more instructions, and
//!   takes an empty value for a missing one.
//! - Setting a property: the SDK panics on any status but Ok.
//! - Clock: the SDK has only the wall clock, which steps. Envoy implements WASI's `clock_time_get`
//!   for every module.
//! - Callback for queues: the SDK panics if the context is not a root context.
#![allow(unsafe_code, reason = "foreign functions and link sections have no safe form")]

use core::ptr;

use crate::identity::TEXT;
use crate::roots::is_root;

/// The status of a call that succeeded; a number, because the SDK's enum is undefined behaviour for
/// a status that it does not know.
const OK: u32 = 0;
/// The number of the map that holds the request headers.
const REQUEST_HEADERS: u32 = 0;
/// The number of the monotonic clock.
const MONOTONIC: u32 = 1;

#[link(wasm_import_module = "env")]
unsafe extern "C" {
    safe fn proxy_get_header_map_pairs(map: u32, pairs: &mut *mut u8, length: &mut usize) -> u32;
    fn proxy_get_property(
        path: *const u8,
        path_length: usize,
        value: &mut *mut u8,
        length: &mut usize,
    ) -> u32;
    fn proxy_set_property(
        path: *const u8,
        path_length: usize,
        value: *const u8,
        length: usize,
    ) -> u32;
}

#[link(wasm_import_module = "wasi_snapshot_preview1")]
unsafe extern "C" {
    safe fn clock_time_get(clock: u32, precision: u64, nanoseconds: &mut u64) -> u32;
}

unsafe extern "C" {
    /// The SDK's callback. It is not exported.
    safe fn proxy_on_queue_ready(context: u32, queue: u32);
}

/// The module's `proxy_on_queue_ready`: `companion-cli/module/src/compile.rs` exports it under that
/// name. The queue of a VM that has died lives on, and Envoy announces its messages to the VM after
/// it, with the number of the old root context. There a stream may have that number.
#[unsafe(no_mangle)]
extern "C" fn guard_on_queue_ready(context: u32, queue: u32) {
    if is_root(context) {
        proxy_on_queue_ready(context, queue);
    }
}

/// All request headers in one buffer, which [`crate::headers`] parses; empty if there are none.
pub(crate) fn request_headers() -> Vec<u8> {
    filled(|pairs, length| proxy_get_header_map_pairs(REQUEST_HEADERS, pairs, length))
        .unwrap_or_default()
}

/// A property; the parts of its path are separated by zero bytes.
pub(crate) fn property(path: &str) -> Option<Vec<u8>> {
    // SAFETY: the host reads the bytes of the path and nothing after the call.
    filled(|value, length| unsafe { proxy_get_property(path.as_ptr(), path.len(), value, length) })
}

/// Sets a property of the stream whose context is the effective one.
pub(crate) fn set_property(name: &str, value: &[u8]) -> bool {
    // SAFETY: the host reads the bytes of the name and of the value and nothing after the call.
    let status =
        unsafe { proxy_set_property(name.as_ptr(), name.len(), value.as_ptr(), value.len()) };
    status == OK
}

/// The buffer that the host allocates and fills.
fn filled(call: impl FnOnce(&mut *mut u8, &mut usize) -> u32) -> Option<Vec<u8>> {
    let (mut start, mut length) = (ptr::null_mut(), 0);
    if call(&mut start, &mut length) != OK {
        return None;
    }
    if start.is_null() {
        return Some(Vec::new());
    }
    // SAFETY: the host got `length` bytes from the SDK's `malloc`, which gives away a boxed slice
    // of exactly that length from the global allocator. It has filled them, and does not use them
    // after the call.
    Some(unsafe { Vec::from_raw_parts(start, length, length) })
}

/// Nanoseconds of the monotonic clock.
pub(crate) fn monotonic_clock() -> u64 {
    let mut nanoseconds = 0;
    clock_time_get(MONOTONIC, 0, &mut nanoseconds);
    nanoseconds
}

/// The module's version, readable without running it.
#[used]
#[unsafe(link_section = "laststream")]
static IDENTITY: [u8; TEXT.len()] = {
    let mut bytes = [0; TEXT.len()];
    bytes.copy_from_slice(TEXT.as_bytes());
    bytes
};
