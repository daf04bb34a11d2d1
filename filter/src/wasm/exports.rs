//! What Envoy calls. A callback that is not here costs nothing: Envoy does not enter the VM for it. There is none for bodies, trailers,
//! responses or the log, and none of another protocol.

use alloc::boxed::Box;
use alloc::format;
use core::cell::RefCell;
use core::panic::{Location, PanicInfo};

use super::imports::Envoy;
use crate::contexts::{Contexts, Flow};
use crate::host::{Host, Level};

static CONTEXTS: OneThread<RefCell<Contexts>> = OneThread(RefCell::new(Contexts::new()));

struct OneThread<T>(T);

// SAFETY: Envoy gives each of its threads a VM with memory of its own, and a VM has one thread.
unsafe impl<T> Sync for OneThread<T> {}

/// Goes on with the next filter.
const CONTINUE: u32 = 0;

/// Stays at this filter.
const STOP: u32 = 1;

/// The version of the ABI. With this one Envoy chooses the route again by itself after a request header was written.
#[unsafe(no_mangle)]
extern "C" fn proxy_abi_version_0_2_1() {}

#[unsafe(no_mangle)]
extern "C" fn _initialize() {}

/// Only where it happened, which says what, too: messages would bring the formatting engine along. The compiler sees that nobody reads
/// them where this is part of its caller.
#[panic_handler]
#[inline(always)]
#[allow(unused_attributes, reason = "rustc says that what is exported is not inlined; LLVM inlines it")]
fn panicked(panic: &PanicInfo<'_>) -> ! {
    die(panic.location())
}

#[inline(never)]
fn die(place: Option<&Location<'_>>) -> ! {
    let (file, line) = place.map_or(("", 0), |place| (place.file(), place.line()));
    Envoy.log(Level::Critical, &format!("panicked at {file}:{line}"));
    core::arch::wasm32::unreachable()
}

/// Memory for the host to fill.
#[unsafe(no_mangle)]
extern "C" fn proxy_on_memory_allocate(length: usize) -> *mut u8 {
    Box::into_raw(Box::<[u8]>::new_uninit_slice(length)).cast()
}

#[unsafe(no_mangle)]
extern "C" fn proxy_on_context_create(context: u32, parent: u32) {
    CONTEXTS.0.borrow_mut().create(context, parent);
}

#[unsafe(no_mangle)]
extern "C" fn proxy_on_configure(root: u32, length: usize) -> u32 {
    let text = Envoy.configuration(length);
    CONTEXTS.0.borrow_mut().configure(root, &Envoy, &text).into()
}

#[unsafe(no_mangle)]
extern "C" fn proxy_on_request_headers(stream: u32, _headers: u32, _end_of_stream: u32) -> u32 {
    match CONTEXTS.0.borrow_mut().begin(stream, &Envoy) {
        Flow::Continue => CONTINUE,
        Flow::Stop => STOP,
    }
}

#[unsafe(no_mangle)]
extern "C" fn proxy_on_tick(root: u32) {
    CONTEXTS.0.borrow_mut().tick(root, &Envoy);
}

#[unsafe(no_mangle)]
extern "C" fn proxy_on_queue_ready(root: u32, queue: u32) {
    CONTEXTS.0.borrow_mut().message(root, queue, &Envoy);
}

#[unsafe(no_mangle)]
extern "C" fn proxy_on_http_call_response(root: u32, call: u32, _headers: u32, length: usize, _trailers: u32) {
    CONTEXTS.0.borrow_mut().called(root, call, length, &Envoy);
}

/// True: nothing is left to do for the context.
#[unsafe(no_mangle)]
extern "C" fn proxy_on_done(context: u32) -> u32 {
    CONTEXTS.0.borrow_mut().done(context, &Envoy);
    true.into()
}
