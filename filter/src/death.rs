//! Deaths on request, for tests of the count of a VM that dies. Never in the released module.

use crate::headers::Headers;
use crate::host::Host;

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

#[allow(unconditional_recursion, reason = "the test asks for it")]
fn deeper(depth: u64) -> u64 {
    let here = core::hint::black_box([depth; 64]);
    deeper(depth + 1) + here[(depth % 64) as usize]
}
