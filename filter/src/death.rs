//! Deaths and stalls on request, for tests of the count of a VM that dies and of a worker that
//! stands still. Never in the released module.

use core::cell::RefCell;
use std::collections::BTreeMap;

use laststream_drain::state::Millis;

use crate::headers::Headers;
use crate::host::{Control, Host};

thread_local! {
    /// The streams at whose end the worker is to stand still, by context, with the milliseconds.
    static STALLS: RefCell<BTreeMap<u32, u64>> = const { RefCell::new(BTreeMap::new()) };
}

/// Dies as the request's `x-laststream-die` asks: `panic`, `abort`, `memory` or `stack`.
#[allow(clippy::panic, reason = "the test asks for it")]
pub(crate) fn die_if_asked(host: &impl Host) {
    match Headers::new(&host.request_headers()).first("x-laststream-die") {
        Some(b"panic") => panic!("asked to"),
        Some(b"abort") => core::arch::wasm32::unreachable(),
        Some(b"memory") => loop {
            core::mem::forget(core::hint::black_box(Vec::<u8>::with_capacity(64 << 20)));
        },
        Some(b"stack") => {
            deeper(0);
        }
        _ => {}
    }
}

/// Stands still before the stream is counted, for the milliseconds of `x-laststream-stall-begin`.
/// Remembers those of `x-laststream-stall` for the end of the stream.
pub(crate) fn stall_if_asked(host: &impl Control, context: u32) {
    let headers = host.request_headers();
    let millis = |name| {
        let value = Headers::new(&headers).first(name)?;
        core::str::from_utf8(value).ok()?.parse::<u64>().ok()
    };
    if let Some(at_end) = millis("x-laststream-stall") {
        STALLS.with_borrow_mut(|stalls| stalls.insert(context, at_end));
    }
    stand_still(host, millis("x-laststream-stall-begin").unwrap_or(0));
}

/// Stands still as the stream has asked, after Envoy's end of the stream and before the filter's.
pub(crate) fn stall_at_end(host: &impl Control, context: u32) {
    if let Some(millis) = STALLS.with_borrow_mut(|stalls| stalls.remove(&context)) {
        stand_still(host, millis);
    }
}

fn stand_still(host: &impl Control, millis: u64) {
    let until = host.monotonic_time() + Millis(millis);
    while host.monotonic_time() < until {}
}

#[allow(unconditional_recursion, reason = "the test asks for it")]
fn deeper(depth: u64) -> u64 {
    let here = core::hint::black_box([depth; 64]);
    deeper(depth + 1) + here[(depth % 64) as usize]
}
